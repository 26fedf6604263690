"""The points of a sweep: every combination of the values to try, with every seed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.train import SweepConfig

MAX_NAME_LENGTH = 150  # file systems take 255 bytes


@dataclass(frozen=True)
class GridPoint:
    values: Mapping[str, str]
    """Option -> value, as text."""
    seed: int | None
    """None where the sweep leaves the seed alone."""

    @property
    def configuration(self) -> str:
        """What its seeds have in common: `arch.fixed=true,lr=1e-4`; empty without a grid."""
        return ",".join(f"{key}={value}" for key, value in self.values.items())

    @property
    def name(self) -> str:
        """Name of its folder: `arch.fixed=true,seed=1`."""
        seed = [] if self.seed is None else [f"seed={self.seed}"]
        return folder_name(",".join([*filter(None, [self.configuration]), *seed]))

    def flags(self) -> list[str]:
        given = [f"--{key.replace('_', '-')}={value}" for key, value in self.values.items()]
        return given if self.seed is None else [*given, f"--training.seed={self.seed}"]


def grid_points(c: SweepConfig) -> list[GridPoint]:
    """Every combination, the first option varying slowest and the seed fastest."""
    tried, seeds = c.parse_grid(), list[int | None](c.seeds) or [None]
    found = [
        GridPoint(dict(zip(tried, values, strict=True)), seed)
        for values in product(*tried.values())
        for seed in seeds
    ]
    names = [point.name for point in found]
    if len(set(names)) < len(names):
        raise ToolkitError(
            f"the values of sweep.grid must differ in letters, digits or .+-=, since they name "
            f"folders, but {sorted(names)} are not all different."
        )
    return found


def folder_name(text: str) -> str:
    """The text with what file systems or shells trip over replaced; long ones end in a digest."""
    plain = re.sub(r"[^A-Za-z0-9._=+,-]", "_", text)
    if len(plain) <= MAX_NAME_LENGTH:
        return plain
    return f"{plain[:MAX_NAME_LENGTH]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def insert_flags(argv: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The command line with flags that win over those before them; words behind -- stay there."""
    end = argv.index("--") if "--" in argv else len(argv)
    return [*argv[:end], *flags, *argv[end:]]
