"""Going on from a checkpoint, and starting from another run's weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.checkpoints import manifest, optimizer_state, sharded, tensor_files
from toolkit.checkpoints.load import (
    AVERAGE,
    MODEL,
    OPTIMIZER,
    SPARE,
    STATE,
    differences,
    find,
    load_weights,
    read_config,
    read_json,
    read_tensors,
    weights_file,
)
from toolkit.checkpoints.save_folder import LAST, SaveFolder
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.config.run import RunConfig
from toolkit.config.serialize import to_dict
from toolkit.data.formats.parallel.tokenizer import ParallelCodec
from toolkit.data.tokenizers.tokenizer import Codec
from toolkit.distributed import World
from toolkit.tasks.task import Learner
from toolkit.training.callbacks.ema import MovingAverage
from toolkit.training.step import Place, State
from toolkit.training.trainer import Trainer

FIXED = (
    *("arch", "task", "criterion", "training.seed", "optimizer.name"),
    *("optimizer.momentum", "optimizer.beta1", "optimizer.centered", "optimizer.bias_correction"),
)
"""What a run keeps from its first update to its last: sections, or single options."""
START = "checkpoint.finetune_from"
"""Kept too where it is given: a run that goes on does not start from those weights."""

FATES = {
    "missing": "begun anew, the checkpoint has none",
    "of another shape": "begun anew, of another shape in the checkpoint",
    "unknown": "left behind",
}
"""What becomes of weights that do not fit where others start from them."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Saved:
    """A verified checkpoint to go on from."""

    folder: Path
    state: State

    @property
    def place(self) -> Place:
        return Place(**self.state["place"])


def choose(config: RunConfig, saves: SaveFolder, world: World, tell: Tell) -> Saved | None:
    """The checkpoint to go on from, as the first rank finds it; None to start anew."""
    found = ""
    if world.first:
        asked = config.checkpoint.restore_file
        folder = restored(Path(asked), saves, tell) if asked else newest_good(saves, tell)
        found = str(folder or "")
    found = world.broadcast(found)
    if not found:
        return None
    folder = Path(found)
    refuse_weights_alone(folder)
    refuse_changes(folder, config)
    return Saved(folder, read_json(folder / STATE, "place", "observers", "precision", "data"))


def restored(asked: Path, saves: SaveFolder, tell: Tell) -> Path | None:
    """The checkpoint that --restore-file names, of a save folder the last one.

    Where it began a run of this save folder, the run goes on instead: the same command may be given
    again after a stop.
    """
    folder = asked if (asked / manifest.NAME).exists() else SaveFolder(asked).target(LAST) or asked
    if folder.resolve().parent == saves.path.resolve() or not saves.checkpoints():
        return find(folder)
    tell(f"--restore-file {asked} left aside: {saves.path} has gone on from it")
    return newest_good(saves, tell)


def refuse_weights_alone(folder: Path) -> None:
    """Averages and converted models have no optimizer and no place to go on from."""
    facts = manifest.read(folder)
    kind = f"an average of {len(facts['averaged'])}" if facts.get("averaged") else ""
    kind = kind or (f"a conversion of {facts['converted']}" if facts.get("converted") else "")
    if kind:
        raise ToolkitError(
            f"a run must go on from a checkpoint of its own, but {folder} is {kind} and has no "
            f"optimizer. Start from its weights with --finetune-from."
        )


def newest_good(saves: SaveFolder, tell: Tell) -> Path | None:
    """checkpoint_last, or the newest one whose digests are right, saying what was passed over."""
    problems = []
    for folder in saves.candidates():
        try:
            manifest.verify(folder)
        except ToolkitError as error:
            problems.append(str(error))
            tell(f"passed over: {error}")
            continue
        return folder
    if problems:
        raise ToolkitError(
            f"{saves.path} must hold a checkpoint that is whole, but none of {len(problems)} is. "
            f"The newest: {problems[0]} Choose another --save-dir to start anew."
        )
    return None


def refuse_changes(folder: Path, config: RunConfig) -> None:
    """Refuse to go on with another architecture, task, criterion, optimizer, seed or first weights.

    Options that the version which saved did not have yet were at their defaults. Of a part that
    is another one only the name is told.
    """
    before, now = (
        flat(json_files.loads(json_files.dumps(to_dict(run))))
        for run in (read_config(folder)[0], config)
    )
    differing = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    kept = [*FIXED, *([START] if now[START] else [])]
    names = {f"{fixed.removesuffix('.name')}.name" for fixed in FIXED} & differing
    changed = [
        f"{key} was {before.get(key)!r} and is now {now.get(key)!r}"
        for key in sorted(differing)
        if any(within(key, fixed) for fixed in kept)
        and (key in names or f"{key.partition('.')[0]}.name" not in names)
    ]
    if changed:
        raise ToolkitError(
            f"a run must go on as it began, but since {folder} {'; '.join(changed)}. Change it "
            f"back, choose another --save-dir, or take only the weights with --finetune-from."
        )


def within(key: str, section: str) -> bool:
    return key == section or key.startswith(section + ".")


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """{a: {b: 1}} -> {"a.b": 1}."""
    if not isinstance(value, Mapping):
        return {path: value}
    return {
        name: leaf
        for key, part in value.items()
        for name, leaf in flat(part, f"{path}.{key}" if path else str(key)).items()
    }


def refuse_other_data(saved: Saved, now: Mapping[str, str]) -> None:
    """Refuse other examples; and another order of them, unless an epoch has just ended."""
    before = saved.state["data"]
    if before["examples"] != now["examples"]:
        raise ToolkitError(
            f"a run must go on with the data it began with, but the examples of {saved.folder} "
            f"have the fingerprint {before['examples'][:12]} and these {now['examples'][:12]}. "
            f"Choose another --save-dir, or take only the weights with --finetune-from."
        )
    if before["order"] != now["order"] and saved.place.consumed:
        raise ToolkitError(
            f"data.max_tokens, data.batch_size and data.weights must stay the same within an "
            f"epoch, but differ from those of {saved.folder}, {saved.place.consumed} micro-batches "
            f"into epoch {saved.place.epoch}. Change them back, or at the end of an epoch."
        )


def restore(
    saved: Saved,
    trainer: Trainer,
    observers: Mapping[str, Any],
    average: MovingAverage | None = None,
) -> None:
    """Put weights, optimizer, place and observers where they were.

    A moving average that the run did not have before begins at its weights.
    """
    load_weights(saved.folder, trainer.learner)
    files = sharded.of(saved.folder) or [saved.folder / OPTIMIZER]
    optimizer_state.restore(trainer.optimizer, trainer.learner, tensor_files.opened(files))
    trainer.place = saved.place
    if trainer.precision.loss_scale and saved.state["loss_scale"]:
        trainer.precision.loss_scale.restore(saved.state["loss_scale"])
    if average:
        there = (saved.folder / AVERAGE).exists()
        average.restore(read_tensors(saved.folder / (AVERAGE if there else MODEL)))
    for name, observer in observers.items():
        if name in saved.state["observers"]:
            observer.restore(saved.state["observers"][name])


def words_of(codec: Codec) -> list[str]:
    """Fingerprints of the vocabulary that is read and, where there is one, of what is written."""
    written = [codec.target] if isinstance(codec, ParallelCodec) else []
    return [it.vocabulary.fingerprint for it in (codec, *written)]


def finetune(path: str, learner: Learner, codec: Codec, tell: Tell) -> None:
    """Take the weights that fit from a checkpoint, and say which others there are."""
    folder = find(Path(path))
    before = words_of(Codec.load(folder))
    if any(mine != other for mine, other in zip(words_of(codec), before, strict=False)):
        raise ToolkitError(
            f"the data must have the vocabulary of --finetune-from, but that of {folder} differs. "
            f"Run toolkit-preprocess with --codec-from that folder."
        )
    saved, own = read_tensors(folder / weights_file(folder)), learner.state_dict()
    if (folder / SPARE).exists():
        saved |= read_tensors(folder / SPARE)
    fitting = {n: t for n, t in saved.items() if n in own and own[n].shape == t.shape}
    if not fitting:
        raise ToolkitError(
            f"--finetune-from must name a checkpoint with weights that fit, but none of "
            f"{len(saved)} in {folder} does. Choose the architecture it was trained with."
        )
    learner.load_state_dict(fitting, strict=False)
    tell(f"took {len(fitting)} of {len(own)} tensors from {folder}")
    for kind, names in differences(saved, own).items():
        tell(f"{FATES[kind]}: {names}")
