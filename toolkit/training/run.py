"""A training run from its config to its result."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from rich.console import Console as Terminal

from toolkit.common.errors import ToolkitError
from toolkit.common.hashing import seed_of
from toolkit.common.memory import keep_freed_memory
from toolkit.common.registry import CRITERIA, LR_SCHEDULERS, OPTIMIZERS
from toolkit.config.run import RunConfig
from toolkit.config.save import to_dict
from toolkit.data.folder import DataFolder
from toolkit.distributed import World, launch
from toolkit.metrics.sinks import Console, JsonLines, Sink, Sinks, TensorBoard
from toolkit.optim.precision import Precision, asked_for, resolve
from toolkit.tasks.task import Learner
from toolkit.training import resume
from toolkit.training.build import build_learner
from toolkit.training.contents import Contents
from toolkit.training.data import Split, names, sizes_of, split_of
from toolkit.training.diagnosis import NonFinite
from toolkit.training.limits import total_updates
from toolkit.training.log import Log
from toolkit.training.report import print_end, print_start
from toolkit.training.result import Result, digest
from toolkit.training.save_folder import SaveFolder
from toolkit.training.saving import Saving
from toolkit.training.signals import listening
from toolkit.training.step import Observer, Place, Step
from toolkit.training.trainer import Trainer
from toolkit.training.validate import validate
from toolkit.training.validation import Validation


def run(config: RunConfig) -> Result:
    """Train, validate and save as the config says, going on from where the save folder stands."""
    keep_freed_memory()
    with launch(config.training.device) as world:
        training = Run(config, world)
        try:
            return training.fit()
        finally:
            training.close()


class Run:
    """The parts of a training run, put together and brought to where they go on from."""

    def __init__(self, config: RunConfig, world: World) -> None:
        self.config, self.world, self.terminal = config, world, Terminal(stderr=True)
        self.saves = SaveFolder(Path(config.checkpoint.save_dir))
        if world.first:
            self.saves.prepare()
        self.saved = resume.choose(config, self.saves, world, self.tell)
        self.folder = DataFolder.open(*config.data.folders)
        self.train = self.split(config.data.train_subset, training=True)
        self.valid = [self.split(name, training=False) for name in names(config.data.valid_subset)]
        self.refuse_strangers()
        place = self.saved.place if self.saved else Place()
        self.total = total_updates(config.training, self.train.loader, world, place)
        self.trainer = self.make_trainer()
        self.sink = self.make_sink() if world.first else None
        self.log = Log(self.trainer, self.sink, config.logging.log_interval, self.total)
        self.validation = self.make_validation()
        self.saving = self.make_saving()
        if self.saved:
            self.go_on(self.saved)

    def tell(self, text: str) -> None:
        if self.world.first:
            self.terminal.print(text, highlight=False, markup=False, soft_wrap=True)

    def refuse_strangers(self) -> None:
        """All ranks must have the same examples and options, or they would learn nonsense."""
        mine = digest({"run": to_dict(self.config), **self.fingerprints})
        others = [rank for rank, it in enumerate(self.world.gather(mine)) if it != mine]
        if others:
            raise ToolkitError(
                f"all ranks must have the same options and data, but those of rank "
                f"{self.world.rank} differ from those of {others}. Start all with one command "
                f"line, on copies of one data folder."
            )

    def split(self, name: str, *, training: bool) -> Split:
        c = self.config
        return split_of(
            name,
            self.folder,
            c.task,
            c.data,
            world=self.world,
            seed=c.training.seed if training else c.data.evaluation_seed,
            training=training,
        )

    def make_learner(self) -> Learner:
        """The first weights are the seed's, on every rank and machine."""
        c = self.config
        torch.manual_seed(seed_of(c.training.seed))
        learner = build_learner(c.arch, c.task, sizes_of(self.folder))
        if c.checkpoint.finetune_from and not self.saved:
            resume.finetune(c.checkpoint.finetune_from, learner, self.folder.codec, self.tell)
        return learner.to(self.world.device)

    def make_trainer(self) -> Trainer:
        c, learner = self.config, self.make_learner()
        optimizer = OPTIMIZERS[c.optimizer.name].build(
            c.optimizer.config, list(learner.named_parameters())
        )
        return Trainer(
            learner,
            CRITERIA[c.criterion.name].build(c.criterion.config),
            optimizer,
            LR_SCHEDULERS[c.lr_scheduler.name].build(c.lr_scheduler.config, self.total),
            world=self.world,
            precision=Precision(self.precision(), self.world.device),
            clip_norm=c.training.clip_norm,
            update_freq=c.training.update_freq,
            seed=c.training.seed,
        )

    def precision(self) -> str:
        """What was asked for; where nothing was, what the run began with."""
        asked = asked_for(self.config.training)
        if self.saved and asked == "auto":
            return str(self.saved.state["precision"])
        return resolve(asked, self.world.device)

    def make_sink(self) -> Sink:
        c, at = self.config, self.saved.place.update if self.saved else 0
        self.console = Console(c.logging.progress, total_updates=self.total)
        sinks: list[Sink] = [
            JsonLines(self.saves.path / "metrics.jsonl", resumed_at=at),
            self.console,
        ]
        if c.logging.tensorboard_logdir:
            sinks.append(TensorBoard(c.logging.tensorboard_logdir, resumed_at=at))
        return Sinks(sinks)

    def make_validation(self) -> Validation:
        c = self.config.training
        subsets = {
            split.name: partial(
                validate,
                self.trainer.learner,
                self.trainer.criterion,
                split.loader,
                examples=len(split.examples.lengths),
                world=self.world,
                precision=self.trainer.precision,
            )
            for split in self.valid
        }
        return Validation(
            self.trainer,
            subsets,
            self.sink,
            interval=c.validate_interval_updates,
            patience=c.patience,
            metric=c.best_metric,
            examples=self.valid[0].examples.fingerprint if self.valid else "",
        )

    @property
    def fingerprints(self) -> dict[str, str]:
        train = self.train
        return {"examples": train.examples.fingerprint, "order": train.loader.fingerprint}

    def make_saving(self) -> Saving:
        contents = Contents(
            self.saves,
            self.trainer,
            {"log": self.log, "validation": self.validation},
            config=self.config,
            sizes=sizes_of(self.folder),
            codec=self.folder.codec,
            data=self.fingerprints,
        )
        return Saving(
            self.trainer,
            self.saves,
            contents.save,
            self.sink,
            config=self.config.checkpoint,
            validation=self.validation,
        )

    def go_on(self, saved: resume.Saved) -> None:
        resume.refuse_other_data(saved, self.fingerprints)
        observers = {"log": self.log, "validation": self.validation}
        resume.restore(saved, self.trainer, observers)
        if saved.folder.parent.samefile(self.saves.path):
            self.saving.saved_at = saved.place.update
        self.tell(
            f"going on from {saved.folder}: {saved.place.update} updates, epoch "
            f"{saved.place.epoch}, {saved.place.consumed} micro-batches into it"
        )

    def fit(self) -> Result:
        """Train to the end, or until a signal; then report, validate and save what is not yet."""
        if self.world.first:
            print_start(
                self.config, self.trainer, self.train, total=self.total, terminal=self.terminal
            )
        observers: list[Observer] = [self.advance, NonFinite(self.trainer)]
        observers += [self.log, self.validation]
        observers += [] if self.config.checkpoint.no_save else [self.saving]
        with listening(self.trainer.ask_to_stop) as received:
            self.trainer.fit(
                lambda epoch: self.train.loader,
                max_update=self.total,
                max_epoch=self.config.training.max_epoch,
                observers=observers,
            )
            mine = str(received[0] if received else 0)
            signal = max(int(number) for number in self.world.gather(mine))
            self.complete()
        return self.conclude(signal if self.trainer.stopped and signal else None)

    def complete(self) -> None:
        """The report, validation and checkpoint of the last update, where they are missing."""
        place, stopped = self.trainer.place, self.trainer.stopped
        if self.trainer.latest and self.log.latest.get("update") != place.update:
            self.log.report(self.trainer.latest)
        if not stopped:
            self.validation.validate(place.update, place.latest_epoch)
        if not self.config.checkpoint.no_save:
            reason = "signal" if stopped else "end"
            self.saving.save(place.update, place.latest_epoch, [reason])

    def advance(self, step: Step) -> None:
        if self.world.first:
            self.console.advance(step.update)

    def conclude(self, signal: int | None) -> Result:
        """Write and show the result."""
        place = self.trainer.place
        result = Result(
            updates=place.update,
            epochs=place.epoch - 1,
            seconds=self.log.seconds,
            train=self.log.latest,
            valid=self.validation.latest,
            best=self.validation.best,
            signal=signal,
        )
        if self.sink:
            result.write(self.saves.path, self.config)
            self.sink.write("end", {"update": result.updates, "seconds": result.seconds})
            self.sink.close()
            print_end(result, self.terminal)
        return result

    def close(self) -> None:
        """End the workers and the progress bar."""
        for split in (self.train, *self.valid):
            split.loader.close()
        if self.sink:
            self.sink.close()
