"""A training run from its config to its result."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import torch
from rich.console import Console as Terminal

from toolkit.common.errors import ToolkitError
from toolkit.common.hashing import seed_of
from toolkit.common.memory import keep_freed_memory
from toolkit.common.registry import CRITERIA, LR_SCHEDULERS, OPTIMIZERS
from toolkit.config.run import RunConfig
from toolkit.config.sections import TrainingConfig
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
from toolkit.training.observers import Log, Saving, Validation
from toolkit.training.report import print_end, print_start
from toolkit.training.result import Result
from toolkit.training.save_folder import SaveFolder
from toolkit.training.signals import listening
from toolkit.training.step import Observer, Place, Step
from toolkit.training.trainer import Loader, Trainer
from toolkit.training.validate import validate


def run(config: RunConfig) -> Result:
    """Train, validate and save as the config says, going on from where the save folder stands."""
    keep_freed_memory()
    with launch(config.training.device) as world:
        return Run(config, world).fit()


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

    def split(self, name: str, *, training: bool) -> Split:
        c = self.config
        return split_of(
            name,
            self.folder,
            c.task,
            c.data,
            world=self.world,
            seed=c.training.seed,
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
        c = self.config
        if self.world.first:
            print_start(c, self.trainer, self.train, total=self.total, terminal=self.terminal)
        observers: list[Observer] = [self.advance, NonFinite(self.trainer)]
        observers += [self.log, self.validation]
        saves = not c.checkpoint.no_save
        with listening(self.trainer.ask_to_stop) as received:
            self.trainer.fit(
                lambda epoch: self.train.loader,
                max_update=self.total,
                max_epoch=c.training.max_epoch,
                observers=[*observers, self.saving] if saves else observers,
            )
            signal = max(int(n) for n in self.world.gather(str(received[0] if received else 0)))
            place = self.trainer.place
            if self.trainer.latest and self.log.latest.get("update") != place.update:
                self.log.report(self.trainer.latest)
            if not signal:
                self.validation.validate(place.update, place.latest_epoch)
            if saves:
                self.saving.save(place.update, place.latest_epoch, ["signal" if signal else "end"])
        return self.conclude(signal or None)

    def advance(self, step: Step) -> None:
        if self.world.first:
            self.console.advance(step.update)

    def conclude(self, signal: int | None) -> Result:
        """End the workers, and write and show the result."""
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
        for split in (self.train, *self.valid):
            split.loader.close()
        if self.world.first and self.sink:
            result.write(self.saves.path, self.config)
            self.sink.write("end", {"update": result.updates, "seconds": result.seconds})
            self.sink.close()
            print_end(result, self.terminal)
        return result


def total_updates(c: TrainingConfig, loader: Loader, world: World, place: Place) -> int:
    """The updates that max_update and max_epoch allow, whichever is reached first.

    Those behind are counted as they were taken, perhaps by other ranks or accumulating otherwise.
    """
    if c.max_update is None and c.max_epoch is None:
        raise ToolkitError(
            "a run must have an end, but neither training.max_update nor training.max_epoch is "
            "given. Pass --max-update or --max-epoch."
        )
    if c.max_epoch is None:
        return int(c.max_update or 0)
    total, consumed = place.update, place.consumed
    for epoch in range(place.epoch, c.max_epoch + 1):
        left = loader.micro_batches(epoch) - consumed
        total, consumed = total + math.ceil(left / (world.size * c.update_freq)), 0
    return total if c.max_update is None else min(total, c.max_update)
