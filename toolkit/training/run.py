"""A training run from its config to its result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from signal import Signals

import torch

from toolkit.checkpoints.load import describe_base, record_start
from toolkit.checkpoints.save_folder import SaveFolder, read_manifest
from toolkit.common.json_files import JsonObject
from toolkit.common.system import keep_freed_memory
from toolkit.config.sections import RunConfig
from toolkit.data.storage.data_folder import Corpora
from toolkit.distributed import World, launch
from toolkit.distributed.environment import describe_environment
from toolkit.reporting.console import Console, print_plain
from toolkit.reporting.sinks import Sink
from toolkit.reporting.tables import Table
from toolkit.tasks.examples import SHAPE_MULTIPLE, SplitSource
from toolkit.tasks.task import check_examples
from toolkit.training import resume, setup
from toolkit.training.adjustments import make_adjustments
from toolkit.training.callbacks.checkpointing import Checkpointer, write_checkpoint
from toolkit.training.callbacks.logging import MetricsLogger
from toolkit.training.callbacks.non_finite import (
    NonFiniteGuard,
    RankConsistencyCheck,
    SkippedUpdateReporter,
)
from toolkit.training.callbacks.registered import build_callbacks
from toolkit.training.callbacks.stopping import (
    StoppingCriteria,
    check_word_marks,
    count_epochs,
    count_total_updates,
    listen_for_signals,
)
from toolkit.training.cuda_graphs import choose_row_multiple
from toolkit.training.data import (
    LoadedSplit,
    TrainingData,
    open_split,
    resolve_task,
    split_names,
    to_sizes,
)
from toolkit.training.result import RunResult, count_parameters, print_end, start_rows
from toolkit.training.setup import (
    check_same_on_all_ranks,
    make_sinks,
    make_trainer,
    make_validation,
)
from toolkit.training.step import AdaptiveTask, Callback, Stateful, Step, TrainingProgress


def run(config: RunConfig, *, command: str = "", sinks: Sequence[Sink] = ()) -> RunResult:
    """Train, validate and save as configured, resuming from the save folder's latest checkpoint.
    The folder records the command line, and the main rank reports to `sinks`, too.
    """
    keep_freed_memory()
    torch.set_flush_denormal(True)  # decaying mean squares become denormal: 30 times slower
    c, folder = config.training, Path(config.checkpoint.save_dir)
    with launch(c.device, timeout_seconds=c.timeout_seconds, folder=folder) as world:
        training = TrainingRun(config, world, command, sinks)
        try:
            return training.fit()
        finally:
            training.close()


class TrainingRun:
    """A training run, built from its config and restored from its latest checkpoint."""

    def __init__(
        self, config: RunConfig, world: World, command: str = "", sinks: Sequence[Sink] = ()
    ) -> None:
        self.config, self.world, self.command = config, world, command
        self.stderr = Console(stderr=True)
        self.save_folder = folder = SaveFolder(Path(config.checkpoint.save_dir))
        if world.is_main:
            self.save_folder.prepare()
        self.resume_point = resume.find_resume_point(config, folder, world, self.print_message)
        self.corpora = Corpora.of_run(config.data)
        self.folder, self.task = self.corpora.all, resolve_task(config.task, config.arch)
        self.train = TrainingData(
            *(self.corpora, self.task, config.data),
            world=world,
            seed=config.training.seed,
            row_multiple=choose_row_multiple(config.training, world),
            schedules=config.schedules,
        )
        self.valid = [self.open_valid_split(name) for name in split_names(config.data.valid_subset)]
        check_same_on_all_ranks(config, self.train.fingerprints, world)
        progress = self.resume_point.progress if self.resume_point else TrainingProgress()
        resume.check_same_data(self.resume_point, self.train.fingerprints, self.folder)
        batches, words, c = self.train.micro_batches, self.train.words, config.training
        self.total_updates = total = count_total_updates(c, batches, world, progress, words)
        check_word_marks(config, total, words, world, progress)
        self.trainer = make_trainer(
            config,
            self.folder,
            world,
            total_updates=total,
            resume_point=self.resume_point,
            print_message=self.print_message,
        )
        self.follow_schedules(progress)
        self.check_lengths()
        self.console, self.sink = make_sinks(config, world, progress.update, total, sinks)
        interval = config.logging.log_interval
        reports = self.console, partial(print_plain, self.stderr)
        self.metrics_logger = MetricsLogger(self.trainer, self.sink, interval, total, *reports)
        self.validation = make_validation(
            config, self.trainer, self.valid, self.sink, self.console, total
        )
        self.stopping = StoppingCriteria(self.trainer, config.training)
        self.plugins = build_callbacks(config, self.trainer, self.validation, self.sink)
        self.skipped_updates = SkippedUpdateReporter(
            self.trainer, self.sink, self.train.example_ids
        )
        self.checkpointer = self.make_checkpointer()
        if self.resume_point:
            self.restore(self.resume_point)

    def open_valid_split(self, name: str) -> LoadedSplit:
        c = self.config.data
        source = SplitSource(
            self.corpora.with_split(name), name, c.evaluation_seed, row_multiple=SHAPE_MULTIPLE
        )
        return open_split(source, self.task, c, world=self.world)

    def follow_schedules(self, progress: TrainingProgress) -> None:
        """Let the data, the model and the optimizer follow the schedules of options."""
        if not self.config.schedules:
            return
        size = self.world.size
        per_update = size * self.config.training.micro_batches_per_rank(size)
        self.train.schedules.epochs = count_epochs(
            self.total_updates, self.train.micro_batches, per_update, progress
        )
        if not self.resume_point:  # a shorter run may go on from an update of a longer one
            self.train.schedules.check_reached()
        self.trainer.adjustments = make_adjustments(self.config, self.train, self.trainer)

    def check_lengths(self) -> None:
        """Raise unless the encoder can read all examples, those of later shards too."""
        encoder = self.trainer.learner.encoder
        self.train.check(encoder)
        for split in self.valid:
            check_examples(split.examples, encoder, split.name)
        setup.check_criterion(self.config, self.trainer, self.train)

    def make_checkpointer(self) -> Checkpointer:
        self.stateful: dict[str, Stateful] = {
            "log": self.metrics_logger,
            "validation": self.validation,
            "stopping": self.stopping,
        }
        if self.trainer.spike_detector:
            self.stateful["spikes"] = self.trainer.spike_detector
        self.stateful |= {n: it for n, it in self.plugins.items() if isinstance(it, Stateful)}
        write = partial(
            write_checkpoint,
            self.save_folder,
            self.trainer,
            self.stateful,
            config=self.config,
            sizes=to_sizes(self.folder),
            tokenizer=self.folder.tokenizer,
            data=self.train.fingerprints,
            base=self.find_base(),
            ema=self.validation.ema,
        )
        return Checkpointer(
            self.trainer,
            self.save_folder,
            write,
            self.sink,
            config=self.config.checkpoint,
            validation=self.validation,
        )

    def find_base(self) -> dict[str, str]:
        """The weights that adapters change: those at the start of the run, or nothing."""
        if not self.config.training.has_adapters:
            return {}
        if self.resume_point:
            return read_manifest(self.resume_point.folder).base
        return describe_base(Path(str(self.config.checkpoint.finetune_from)))

    def print_message(self, text: str) -> None:
        if self.world.is_main:
            print_plain(self.stderr, text)

    def restore(self, point: resume.ResumePoint) -> None:
        resume.restore(point, self.trainer, self.stateful, self.validation.ema)
        if point.folder.parent.samefile(self.save_folder.path):
            self.checkpointer.mark_saved(point.progress.update)
        self.print_message(resume.describe_resume(point))

    def fit(self) -> RunResult:
        """Train until the end or a signal; then log, validate and save the last update."""
        self.report_start()
        c = self.config.training
        with listen_for_signals(self.trainer.request_stop) as received:
            # auto is off on a CPU, which overcommits its memory
            if c.memory_probe == "always" or (
                c.memory_probe == "auto" and self.world.device.type == "cuda"
            ):
                setup.probe(self.trainer, self.train.loader_for(self.trainer.progress.epoch))
            self.stopping.check_time()
            self.trainer.fit(
                self.train.loader_for,
                max_update=self.total_updates,
                max_epoch=c.max_epoch,
                callbacks=self.list_callbacks(),
            )
            mine = str(received[0] if received else 0)
            received_by_any = max(int(it) for it in self.world.all_gather(mine))
            signal = received_by_any if self.trainer.stopped else 0
            self.finish(signal)
        return self.write_result(signal or None)

    def report_start(self) -> None:
        """Print a summary; log and record the device, the versions and where the run starts."""
        if not self.sink:
            return
        rows = start_rows(self.config, self.trainer, self.train, self.valid, self.total_updates)
        Table(columns=("run", ""), rows=list(rows.items())).print(self.stderr)
        environment = describe_environment(self.world.device)
        self.sink.write("start", {"update": self.trainer.progress.update, **environment})
        point = self.resume_point
        facts: JsonObject = {
            "command": self.command or None,
            "ranks": self.world.size,
            "update": point.progress.update if point else 0,
            "resumed_from": str(point.folder) if point else None,
            "changed_options": point.differences if point else {},
        }
        path = self.save_folder.path
        if message := record_start(path, self.config, self.folder, environment, facts):
            self.print_message(message)

    def list_callbacks(self) -> list[Callback]:
        """The callbacks of each update, in the order of their calls."""
        callbacks: list[Callback] = [
            self.skipped_updates,
            NonFiniteGuard(self.trainer),
            RankConsistencyCheck(self.trainer, self.config.training.check_ranks_interval),
        ]
        task, total = self.trainer.learner.task, self.world.all_reduce
        if isinstance(task, AdaptiveTask):
            callbacks.append(lambda step: task.on_update(step.update, total))
        callbacks += [self.validation.ema] if self.validation.ema else []
        callbacks += [self.metrics_logger, self.advance_progress_bar, self.validation]
        callbacks += [self.stopping, *self.plugins.values()]
        callbacks += [] if self.config.checkpoint.no_save else [self.checkpointer]
        return callbacks

    def finish(self, signal: int) -> None:
        """Log, validate and save the last update, as far as this is not done yet."""
        progress, stopped = self.trainer.progress, self.trainer.stopped
        self.skipped_updates.report_pending()
        last_step, logged = self.trainer.last_step, self.metrics_logger.latest.get("update")
        if last_step and logged != progress.update:
            self.metrics_logger.report(last_step)
        if not stopped:
            self.validation.validate(progress.update, progress.latest_epoch)
        if not self.config.checkpoint.no_save:
            reason = "signal" if signal else "time" if stopped else "end"
            self.checkpointer.save_last(progress.update, progress.latest_epoch, reason)
            if stopped:
                hours = f"after {self.stopping.seconds / 3600:.2f} hours"
                after = f"by {Signals(signal).name}" if signal else hours
                more = "" if signal else " with a larger --stop-time-hours"
                self.print_message(f"stopped {after}; to resume, run the same command{more}")

    def advance_progress_bar(self, step: Step) -> None:
        if self.console:
            self.console.advance(step.update)

    def write_result(self, signal: int | None) -> RunResult:
        """Write the result to the save folder and print it."""
        progress = self.trainer.progress
        result = RunResult(
            updates=progress.update,
            words=progress.words,
            epochs=progress.epoch - 1,
            seconds=self.metrics_logger.seconds,
            train=self.metrics_logger.latest,
            valid=self.validation.latest,
            best=self.validation.best,
            parameters=count_parameters(self.trainer.learner, trained=True),
            frozen_parameters=count_parameters(self.trainer.learner, trained=False),
            flops_per_token=self.metrics_logger.flops_per_token,
            signal=signal,
            out_of_time=self.trainer.stopped and signal is None,
        )
        if self.sink:
            result.write(self.save_folder.path, self.config)
            self.sink.write("end", {"update": result.updates, "seconds": result.seconds})
            self.sink.close()
            print_end(result, self.stderr)
        return result

    def close(self) -> None:
        """End the data workers and the progress bar, and release the save folder."""
        self.train.close()
        for split in self.valid:
            split.loader.close()
        if self.sink:
            self.sink.close()
        self.save_folder.lock.release()
