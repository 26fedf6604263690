"""A training run from its config to its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.common.errors import ToolkitError
from toolkit.common.system import keep_freed_memory
from toolkit.config.run import RunConfig
from toolkit.config.serialize import to_dict
from toolkit.data.storage.corpora import Corpora
from toolkit.distributed import World, launch
from toolkit.reporting.sinks import Sink, TrainingConsole
from toolkit.training import memory_probe, resume
from toolkit.training.callbacks.checkpointing import Checkpointer
from toolkit.training.callbacks.logging import MetricsLogger
from toolkit.training.callbacks.non_finite import NonFiniteGuard
from toolkit.training.callbacks.rank_consistency import RankConsistencyCheck
from toolkit.training.callbacks.skipped_updates import SkippedUpdateReporter
from toolkit.training.callbacks.stopping import StoppingCriteria, count_total_updates
from toolkit.training.callbacks.validation import UnknownMetricError
from toolkit.training.data import LoadedSplit, TrainingData, open_split, resolve_task, split_names
from toolkit.training.disk_space import disk_space_warning
from toolkit.training.result import RunResult, config_digest
from toolkit.training.setup import (
    make_checkpointer,
    make_ema,
    make_sinks,
    make_trainer,
    make_validation,
)
from toolkit.training.signals import listen_for_signals
from toolkit.training.step import Observer, Step, TrainingProgress
from toolkit.training.summary import print_end, print_start


def run(config: RunConfig) -> RunResult:
    """Train, validate and save as the config says, going on from where the save folder stands."""
    keep_freed_memory()
    torch.set_flush_denormal(True)  # mean squares that decay to such numbers take 30 times as long
    c, folder = config.training, Path(config.checkpoint.save_dir)
    with launch(c.device, timeout_seconds=c.timeout_seconds, folder=folder) as world:
        training = TrainingRun(config, world)
        try:
            return training.fit()
        finally:
            training.close()


class TrainingRun:
    """The parts of a training run, put together and brought to where they go on from."""

    def __init__(self, config: RunConfig, world: World) -> None:
        self.config, self.world, self.stderr = config, world, Console(stderr=True)
        self.save_folder = SaveFolder(Path(config.checkpoint.save_dir))
        if world.is_main:
            self.save_folder.prepare()
        self.resume_point = resume.find_resume_point(
            config, self.save_folder, world, self.print_message
        )
        self.corpora = Corpora.open(*config.data.dirs)
        self.folder = self.corpora.all
        self.task = resolve_task(config.task, config.arch)
        self.train = TrainingData(
            self.corpora, self.task, config.data, world=world, seed=config.training.seed
        )
        self.valid = [self.open_valid_split(name) for name in split_names(config.data.valid_subset)]
        self.check_same_config_on_all_ranks()
        place = self.resume_point.progress if self.resume_point else TrainingProgress()
        self.total_updates = count_total_updates(config.training, self.train, world, place)
        self.trainer = make_trainer(
            config,
            self.folder,
            world,
            total_updates=self.total_updates,
            resume_point=self.resume_point,
            print_message=self.print_message,
        )
        self.console, self.sink = self.make_console(place.update)
        self.metrics_logger = MetricsLogger(
            self.trainer, self.sink, config.logging.log_interval, self.total_updates
        )
        self.ema = make_ema(config, self.trainer)
        self.validation = make_validation(
            config, self.trainer, self.valid, self.sink, self.ema, self.console, self.total_updates
        )
        self.stopping = StoppingCriteria(self.trainer, config.training)
        self.skipped_updates = SkippedUpdateReporter(
            self.trainer, self.sink, self.train.example_ids
        )
        self.observers = self.make_observers()
        self.checkpointer = self.make_checkpointer()
        if self.resume_point:
            self.restore(self.resume_point)

    def make_console(self, update: int) -> tuple[TrainingConsole | None, Sink | None]:
        """The console and the log of the main process; other ranks have none."""
        if not self.world.is_main:
            return None, None
        console = TrainingConsole(self.config.logging.progress, total_updates=self.total_updates)
        return console, make_sinks(self.config, console, update)

    def make_checkpointer(self) -> Checkpointer:
        return make_checkpointer(
            self.config,
            self.folder,
            self.trainer,
            self.observers,
            save_folder=self.save_folder,
            data=self.fingerprints,
            sink=self.sink,
            ema=self.ema,
        )

    def make_observers(self) -> dict[str, Any]:
        """The callbacks whose state a checkpoint holds."""
        observers: dict[str, Any] = {
            "log": self.metrics_logger,
            "validation": self.validation,
            "ending": self.stopping,
        }
        if self.trainer.spike_detector:
            observers["spikes"] = self.trainer.spike_detector
        return observers

    def print_message(self, text: str) -> None:
        if self.world.is_main:
            self.stderr.print(text, highlight=False, markup=False, soft_wrap=True)

    def check_same_config_on_all_ranks(self) -> None:
        """All ranks must have the same examples and options, which are those of the checkpoint."""
        mine = config_digest({"run": to_dict(self.config), **self.fingerprints})
        others = [rank for rank, it in enumerate(self.world.all_gather(mine)) if it != mine]
        if others:
            raise ToolkitError(
                f"all ranks must have the same options and data, but those of rank "
                f"{self.world.rank} differ from those of {others}. Start all with one command "
                f"line, on copies of one data folder."
            )
        if self.resume_point:
            resume.check_same_data(self.resume_point, self.fingerprints)

    def open_valid_split(self, name: str) -> LoadedSplit:
        c = self.config
        return open_split(
            name,
            self.corpora.with_split(name),
            self.task,
            c.data,
            world=self.world,
            seed=c.data.evaluation_seed,
            training=False,
        )

    @property
    def fingerprints(self) -> dict[str, str]:
        return self.train.fingerprints

    def restore(self, saved: resume.ResumePoint) -> None:
        resume.restore(saved, self.trainer, self.observers, self.ema)
        if saved.folder.parent.samefile(self.save_folder.path):
            self.checkpointer.mark_saved(saved.progress.update)
        self.print_message(
            f"going on from {saved.folder}: {saved.progress.update} updates, epoch "
            f"{saved.progress.epoch}, {saved.progress.consumed} micro-batches into it"
        )

    def fit(self) -> RunResult:
        """Train to the end, or until a signal; then report, validate and save what is not yet."""
        if self.world.is_main:
            self.warn_if_disk_is_full()
            print_start(
                self.config,
                self.trainer,
                self.train,
                self.valid,
                total=self.total_updates,
                console=self.stderr,
            )
        observers: list[Observer] = [self.advance_progress_bar, *self.make_guards()]
        observers += [self.ema] if self.ema else []
        observers += [self.metrics_logger, self.validation, self.stopping]
        observers += [] if self.config.checkpoint.no_save else [self.checkpointer]
        with listen_for_signals(self.trainer.request_stop) as received:
            if memory_probe.should_probe(self.config.training.memory_probe, self.world.device):
                memory_probe.probe(self.trainer, self.train)
            self.stopping.check_time()
            try:
                self.trainer.fit(
                    lambda epoch: self.train,
                    max_update=self.total_updates,
                    max_epoch=self.config.training.max_epoch,
                    observers=observers,
                )
                mine = str(received[0] if received else 0)
                signal = max(int(number) for number in self.world.all_gather(mine))
                signal = signal if self.trainer.stopped else 0
                self.finish(signal)
            except UnknownMetricError as error:
                self.save_before_exit(error)
                raise
        return self.write_result(signal or None)

    def save_before_exit(self, error: UnknownMetricError) -> None:
        """Save what was learned until a figure was found missing, and say how to go on."""
        if not self.config.checkpoint.no_save:
            place = self.trainer.progress
            self.checkpointer.save_last(place.update, place.latest_epoch, "end")
            raise UnknownMetricError(
                f"{error} The same command goes on from here with that."
            ) from None

    def make_guards(self) -> list[Observer]:
        """What tells of trouble, and ends the run where it is too much."""
        trainer = self.trainer
        return [
            self.skipped_updates,
            NonFiniteGuard(trainer),
            RankConsistencyCheck(trainer, self.config.training.check_ranks_interval),
        ]

    def finish(self, signal: int) -> None:
        """The report, validation and checkpoint of the last update, where they are missing."""
        place, stopped = self.trainer.progress, self.trainer.stopped
        self.skipped_updates.report_pending()
        if self.trainer.last_step and self.metrics_logger.latest.get("update") != place.update:
            self.metrics_logger.report(self.trainer.last_step)
        if not stopped:
            self.validation.validate(place.update, place.latest_epoch)
        if not self.config.checkpoint.no_save:
            reason = "signal" if signal else "time" if stopped else "end"
            if reason == "time":
                self.print_message(
                    f"stopped after {self.stopping.seconds / 3600:.2f} hours; the same command "
                    "with "
                    f"a larger --stop-time-hours goes on"
                )
            self.checkpointer.save_last(place.update, place.latest_epoch, reason)

    def warn_if_disk_is_full(self) -> None:
        """Tell where the disk has no room for the checkpoints to come."""
        there = len(self.save_folder.checkpoints())
        told = disk_space_warning(self.save_folder.path, self.trainer.learner, existing=there)
        if told and not self.config.checkpoint.no_save:
            self.print_message(told)

    def advance_progress_bar(self, step: Step) -> None:
        if self.console:
            self.console.advance(step.update)

    def write_result(self, signal: int | None) -> RunResult:
        """Write and show the result."""
        place = self.trainer.progress
        result = RunResult(
            updates=place.update,
            epochs=place.epoch - 1,
            seconds=self.metrics_logger.seconds,
            train=self.metrics_logger.latest,
            valid=self.validation.latest,
            best=self.validation.best,
            signal=signal,
        )
        if self.sink:
            result.write(self.save_folder.path, self.config)
            self.sink.write("end", {"update": result.updates, "seconds": result.seconds})
            self.sink.close()
            print_end(result, self.stderr)
        return result

    def close(self) -> None:
        """End the workers and the progress bar, and let others have the save folder."""
        self.train.close()
        for split in self.valid:
            split.loader.close()
        if self.sink:
            self.sink.close()
        self.save_folder.close()
