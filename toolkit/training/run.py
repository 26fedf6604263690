"""A training run from its config to its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from rich.console import Console as Terminal

from toolkit.checkpoints.save_folder import SaveFolder
from toolkit.common.errors import ToolkitError
from toolkit.common.system import keep_freed_memory
from toolkit.config.run import RunConfig
from toolkit.config.serialize import to_dict
from toolkit.data.storage.corpora import Corpora
from toolkit.distributed import World, launch
from toolkit.reporting.sinks import Console, Sink
from toolkit.training import memory_probe, resume
from toolkit.training.callbacks.logging import Log
from toolkit.training.callbacks.non_finite import NonFinite
from toolkit.training.callbacks.rank_consistency import Agreement
from toolkit.training.callbacks.skipped_updates import Skips
from toolkit.training.callbacks.stopping import Ending, total_updates
from toolkit.training.callbacks.validation import NoFigure
from toolkit.training.data import Split, TrainingData, names, split_of, suited
from toolkit.training.disk_space import shortage
from toolkit.training.result import Result, digest
from toolkit.training.setup import (
    make_average,
    make_saving,
    make_sinks,
    make_trainer,
    make_validation,
)
from toolkit.training.signals import listening
from toolkit.training.step import Observer, Place, Step
from toolkit.training.summary import print_end, print_start


def run(config: RunConfig) -> Result:
    """Train, validate and save as the config says, going on from where the save folder stands."""
    keep_freed_memory()
    torch.set_flush_denormal(True)  # mean squares that decay to such numbers take 30 times as long
    c, folder = config.training, Path(config.checkpoint.save_dir)
    with launch(c.device, timeout_seconds=c.timeout_seconds, folder=folder) as world:
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
        self.corpora = Corpora.open(*config.data.folders)
        self.folder = self.corpora.all
        self.task = suited(config.task, config.arch)
        self.train = TrainingData(
            self.corpora, self.task, config.data, world=world, seed=config.training.seed
        )
        self.valid = [self.valid_split(name) for name in names(config.data.valid_subset)]
        self.refuse_strangers()
        place = self.saved.place if self.saved else Place()
        self.total = total_updates(config.training, self.train, world, place)
        self.trainer = make_trainer(
            config, self.folder, world, total=self.total, saved=self.saved, tell=self.tell
        )
        self.console: Console | None = None
        self.sink: Sink | None = None
        if world.first:
            self.console = Console(config.logging.progress, total_updates=self.total)
            self.sink = make_sinks(config, self.console, place.update)
        self.log = Log(self.trainer, self.sink, config.logging.log_interval, self.total)
        self.average = make_average(config, self.trainer)
        self.validation = make_validation(
            config, self.trainer, self.valid, self.sink, self.average, self.console, self.total
        )
        self.ending = Ending(self.trainer, config.training)
        self.skips = Skips(self.trainer, self.sink, self.train.ids)
        self.observers: dict[str, Any] = {
            "log": self.log,
            "validation": self.validation,
            "ending": self.ending,
        }
        if self.trainer.spikes:
            self.observers["spikes"] = self.trainer.spikes
        self.saving = make_saving(
            config,
            self.folder,
            self.trainer,
            self.observers,
            saves=self.saves,
            data=self.fingerprints,
            sink=self.sink,
            average=self.average,
        )
        if self.saved:
            self.go_on(self.saved)

    def tell(self, text: str) -> None:
        if self.world.first:
            self.terminal.print(text, highlight=False, markup=False, soft_wrap=True)

    def refuse_strangers(self) -> None:
        """All ranks must have the same examples and options, which are those of the checkpoint."""
        mine = digest({"run": to_dict(self.config), **self.fingerprints})
        others = [rank for rank, it in enumerate(self.world.gather(mine)) if it != mine]
        if others:
            raise ToolkitError(
                f"all ranks must have the same options and data, but those of rank "
                f"{self.world.rank} differ from those of {others}. Start all with one command "
                f"line, on copies of one data folder."
            )
        if self.saved:
            resume.refuse_other_data(self.saved, self.fingerprints)

    def valid_split(self, name: str) -> Split:
        c = self.config
        return split_of(
            name,
            self.corpora.having(name),
            self.task,
            c.data,
            world=self.world,
            seed=c.data.evaluation_seed,
            training=False,
        )

    @property
    def fingerprints(self) -> dict[str, str]:
        return self.train.fingerprints

    def go_on(self, saved: resume.Saved) -> None:
        resume.restore(saved, self.trainer, self.observers, self.average)
        if saved.folder.parent.samefile(self.saves.path):
            self.saving.saved(saved.place.update)
        self.tell(
            f"going on from {saved.folder}: {saved.place.update} updates, epoch "
            f"{saved.place.epoch}, {saved.place.consumed} micro-batches into it"
        )

    def fit(self) -> Result:
        """Train to the end, or until a signal; then report, validate and save what is not yet."""
        if self.world.first:
            self.warn_of_room()
            print_start(
                self.config,
                self.trainer,
                self.train,
                self.valid,
                total=self.total,
                terminal=self.terminal,
            )
        observers: list[Observer] = [self.advance, *self.guards()]
        observers += [self.average] if self.average else []
        observers += [self.log, self.validation, self.ending]
        observers += [] if self.config.checkpoint.no_save else [self.saving]
        with listening(self.trainer.ask_to_stop) as received:
            if memory_probe.wanted(self.config.training.memory_probe, self.world.device):
                memory_probe.probe(self.trainer, self.train)
            self.ending.watch_time()
            try:
                self.trainer.fit(
                    lambda epoch: self.train,
                    max_update=self.total,
                    max_epoch=self.config.training.max_epoch,
                    observers=observers,
                )
                mine = str(received[0] if received else 0)
                signal = max(int(number) for number in self.world.gather(mine))
                signal = signal if self.trainer.stopped else 0
                self.complete(signal)
            except NoFigure as error:
                self.keep(error)
                raise
        return self.conclude(signal or None)

    def keep(self, error: NoFigure) -> None:
        """Save what was learnt until a figure was found missing, and say how to go on."""
        if not self.config.checkpoint.no_save:
            place = self.trainer.place
            self.saving.finish(place.update, place.latest_epoch, "end")
            raise NoFigure(f"{error} The same command goes on from here with that.") from None

    def guards(self) -> list[Observer]:
        """What tells of trouble, and ends the run where it is too much."""
        trainer = self.trainer
        return [
            self.skips,
            NonFinite(trainer),
            Agreement(trainer, self.config.training.check_ranks_interval),
        ]

    def complete(self, signal: int) -> None:
        """The report, validation and checkpoint of the last update, where they are missing."""
        place, stopped = self.trainer.place, self.trainer.stopped
        self.skips.read()
        if self.trainer.latest and self.log.latest.get("update") != place.update:
            self.log.report(self.trainer.latest)
        if not stopped:
            self.validation.validate(place.update, place.latest_epoch)
        if not self.config.checkpoint.no_save:
            reason = "signal" if signal else "time" if stopped else "end"
            if reason == "time":
                self.tell(
                    f"stopped after {self.ending.seconds / 3600:.2f} hours; the same command with "
                    f"a larger --stop-time-hours goes on"
                )
            self.saving.finish(place.update, place.latest_epoch, reason)

    def warn_of_room(self) -> None:
        """Tell where the disk has no room for the checkpoints to come."""
        there = len(self.saves.checkpoints())
        told = shortage(self.saves.path, self.trainer.learner, there=there)
        if told and not self.config.checkpoint.no_save:
            self.tell(told)

    def advance(self, step: Step) -> None:
        if self.console:
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
        """End the workers and the progress bar, and let others have the save folder."""
        self.train.close()
        for split in self.valid:
            split.loader.close()
        if self.sink:
            self.sink.close()
        self.saves.close()
