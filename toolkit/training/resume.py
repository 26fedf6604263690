"""Going on from a checkpoint, and starting from another run's weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.checkpoints import manifest, optimizer_state, sharded, tensor_files
from toolkit.checkpoints.load import (
    AVERAGE,
    EXTRA_FILE,
    MODEL,
    OPTIMIZER,
    STATE,
    compare_tensors,
    find_checkpoint,
    load_weights,
    read_config,
    read_json,
    weights_file,
)
from toolkit.checkpoints.save_folder import LAST, SaveFolder
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.config.run import RunConfig
from toolkit.config.serialize import to_dict
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed import World
from toolkit.tasks.task import Learner
from toolkit.training.callbacks.ema import ExponentialMovingAverage
from toolkit.training.step import State, TrainingProgress
from toolkit.training.trainer import Trainer

FIXED_OPTIONS = (
    *("arch", "task", "criterion", "training.seed", "optimizer.name"),
    *("optimizer.momentum", "optimizer.beta1", "optimizer.centered", "optimizer.bias_correction"),
)
"""What a run keeps from its first update to its last: sections, or single options."""
FINETUNE_FROM = "checkpoint.finetune_from"
"""Kept too where it is given: a run that goes on does not start from those weights."""

MISFIT_MESSAGES = {
    "missing": "begun anew, the checkpoint has none",
    "of another shape": "begun anew, of another shape in the checkpoint",
    "unknown": "left behind",
}
"""What becomes of weights that do not fit where others start from them."""

PrintMessage = Callable[[str], None]


@dataclass(frozen=True)
class ResumePoint:
    """A verified checkpoint to go on from."""

    folder: Path
    state: State

    @property
    def progress(self) -> TrainingProgress:
        return TrainingProgress(**self.state["place"])


def find_resume_point(
    config: RunConfig, save_folder: SaveFolder, world: World, print_message: PrintMessage
) -> ResumePoint | None:
    """The checkpoint to go on from, as the first rank finds it; None to start anew."""
    found = ""
    if world.is_main:
        asked = config.checkpoint.restore_file
        folder = (
            find_restore_file(Path(asked), save_folder, print_message)
            if asked
            else find_newest_intact(save_folder, print_message)
        )
        found = str(folder or "")
    found = world.broadcast(found)
    if not found:
        return None
    folder = Path(found)
    check_has_optimizer(folder)
    check_same_options(folder, config)
    return ResumePoint(folder, read_json(folder / STATE, "place", "observers", "precision", "data"))


def find_restore_file(
    asked: Path, save_folder: SaveFolder, print_message: PrintMessage
) -> Path | None:
    """The checkpoint that --restore-file names, of a save folder the last one.

    Where it began a run of this save folder, the run goes on instead: the same command may be given
    again after a stop.
    """
    folder = (
        asked if (asked / manifest.NAME).exists() else SaveFolder(asked).resolve_link(LAST) or asked
    )
    if folder.resolve().parent == save_folder.path.resolve() or not save_folder.checkpoints():
        return find_checkpoint(folder)
    print_message(f"--restore-file {asked} left aside: {save_folder.path} has gone on from it")
    return find_newest_intact(save_folder, print_message)


def check_has_optimizer(folder: Path) -> None:
    """Averages and converted models have no optimizer and no place to go on from."""
    facts = manifest.read(folder)
    kind = f"an average of {len(facts['averaged'])}" if facts.get("averaged") else ""
    kind = kind or (f"a conversion of {facts['converted']}" if facts.get("converted") else "")
    if kind:
        raise ToolkitError(
            f"a run must go on from a checkpoint of its own, but {folder} is {kind} and has no "
            f"optimizer. Start from its weights with --finetune-from."
        )


def find_newest_intact(save_folder: SaveFolder, print_message: PrintMessage) -> Path | None:
    """checkpoint_last, or the newest one whose digests are right, saying what was passed over."""
    problems = []
    for folder in save_folder.resume_candidates():
        try:
            manifest.verify(folder)
        except ToolkitError as error:
            problems.append(str(error))
            print_message(f"passed over: {error}")
            continue
        return folder
    if problems:
        raise ToolkitError(
            f"{save_folder.path} must hold a checkpoint that is whole, but none of {len(problems)} "
            "is. "
            f"The newest: {problems[0]} Choose another --save-dir to start anew."
        )
    return None


def check_same_options(folder: Path, config: RunConfig) -> None:
    """Refuse to go on with another architecture, task, criterion, optimizer, seed or first weights.

    Options that the version which saved did not have yet were at their defaults. Of a part that
    is another one only the name is told.
    """
    before, now = (
        flatten(json_files.loads(json_files.dumps(to_dict(run))))
        for run in (read_config(folder)[0], config)
    )
    differing = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    kept = [*FIXED_OPTIONS, *([FINETUNE_FROM] if now[FINETUNE_FROM] else [])]
    names = {f"{fixed.removesuffix('.name')}.name" for fixed in FIXED_OPTIONS} & differing
    changed = [
        f"{key} was {before.get(key)!r} and is now {now.get(key)!r}"
        for key in sorted(differing)
        if any(is_within(key, fixed) for fixed in kept)
        and (key in names or f"{key.partition('.')[0]}.name" not in names)
    ]
    if changed:
        raise ToolkitError(
            f"a run must go on as it began, but since {folder} {'; '.join(changed)}. Change it "
            f"back, choose another --save-dir, or take only the weights with --finetune-from."
        )


def is_within(key: str, section: str) -> bool:
    return key == section or key.startswith(section + ".")


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """{a: {b: 1}} -> {"a.b": 1}."""
    if not isinstance(value, Mapping):
        return {path: value}
    return {
        name: leaf
        for key, part in value.items()
        for name, leaf in flatten(part, f"{path}.{key}" if path else str(key)).items()
    }


def check_same_data(resume_point: ResumePoint, now: Mapping[str, str]) -> None:
    """Refuse other examples; and another order of them, unless an epoch has just ended."""
    before = resume_point.state["data"]
    if before["examples"] != now["examples"]:
        raise ToolkitError(
            "a run must go on with the data it began with, but the examples of "
            f"{resume_point.folder} "
            f"have the fingerprint {before['examples'][:12]} and these {now['examples'][:12]}. "
            f"Choose another --save-dir, or take only the weights with --finetune-from."
        )
    if before["order"] != now["order"] and resume_point.progress.consumed:
        raise ToolkitError(
            f"data.max_tokens, data.batch_size and data.weights must stay the same within an "
            f"epoch, but differ from those of {resume_point.folder}, "
            f"{resume_point.progress.consumed} micro-batches "
            f"into epoch {resume_point.progress.epoch}. Change them back, or at the end of an "
            "epoch."
        )


def restore(
    resume_point: ResumePoint,
    trainer: Trainer,
    observers: Mapping[str, Any],
    ema: ExponentialMovingAverage | None = None,
) -> None:
    """Put weights, optimizer, place and observers where they were.

    A moving average that the run did not have before begins at its weights.
    """
    load_weights(resume_point.folder, trainer.learner)
    files = sharded.list_shards(resume_point.folder) or [resume_point.folder / OPTIMIZER]
    optimizer_state.restore(trainer.optimizer, trainer.learner, tensor_files.open_tensors(files))
    trainer.progress = resume_point.progress
    if trainer.precision.loss_scale and resume_point.state["loss_scale"]:
        trainer.precision.loss_scale.restore(resume_point.state["loss_scale"])
    if ema:
        there = (resume_point.folder / AVERAGE).exists()
        ema.restore(read_tensors(resume_point.folder / (AVERAGE if there else MODEL)))
    for name, observer in observers.items():
        if name in resume_point.state["observers"]:
            observer.restore(resume_point.state["observers"][name])


def load_finetune_weights(
    path: str, learner: Learner, tokenizer: Tokenizer, print_message: PrintMessage
) -> None:
    """Take the weights that fit from a checkpoint, and say which others there are."""
    folder = find_checkpoint(Path(path))
    vocabularies, others = tokenizer.vocabularies(), Tokenizer.load(folder).vocabularies()
    if any(
        vocabularies[name].fingerprint != others[name].fingerprint
        for name in vocabularies.keys() & others.keys()
    ):
        raise ToolkitError(
            f"the data must have the vocabulary of --finetune-from, but that of {folder} differs. "
            f"Run toolkit-preprocess with --tokenizer-from that folder."
        )
    saved, own = read_tensors(folder / weights_file(folder)), learner.state_dict()
    if (folder / EXTRA_FILE).exists():
        saved |= read_tensors(folder / EXTRA_FILE)
    fitting = {n: t for n, t in saved.items() if n in own and own[n].shape == t.shape}
    if not fitting:
        raise ToolkitError(
            f"--finetune-from must name a checkpoint with weights that fit, but none of "
            f"{len(saved)} in {folder} does. Choose the architecture it was trained with."
        )
    learner.load_state_dict(fitting, strict=False)
    print_message(f"took {len(fitting)} of {len(own)} tensors from {folder}")
    for kind, names in compare_tensors(saved, own).items():
        print_message(f"{MISFIT_MESSAGES[kind]}: {names}")
