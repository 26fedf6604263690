"""The data of a run: the opened folders, and a loader for each split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toolkit.common.registry import TASKS
from toolkit.config.run import Chosen
from toolkit.config.sections import DataConfig
from toolkit.data.examples import Examples
from toolkit.data.folder import DataFolder
from toolkit.data.loader import Loader
from toolkit.distributed import World
from toolkit.models.inputs import Sizes


@dataclass(frozen=True, kw_only=True)
class Split:
    name: str
    examples: Examples
    loader: Loader


def split_of(
    name: str,
    folder: DataFolder,
    task: Chosen,
    c: DataConfig,
    *,
    world: World,
    seed: int,
    training: bool,
) -> Split:
    """One split of a folder as the task sees it, with this rank's loader."""
    build: Any = TASKS[task.name].build
    examples: Examples = build.examples(
        task.config,
        folder,
        name,
        seed=seed,
        training=training,
        fixed_shapes=world.device.type == "cuda",
    )
    loader = Loader(
        examples,
        max_tokens=c.max_tokens,
        batch_size=c.batch_size or (None if c.max_tokens else 32),
        seed=seed,
        rank=world.rank,
        ranks=world.size,
        workers=c.num_workers,
        shuffle=training,
        pin_memory=world.device.type == "cuda",
    )
    return Split(name=name, examples=examples, loader=loader)


def names(subsets: str) -> list[str]:
    """The splits in a list separated by commas."""
    return [name.strip() for name in subsets.split(",") if name.strip()]


def sizes_of(folder: DataFolder) -> Sizes:
    return Sizes(tokens=len(folder.vocabulary))
