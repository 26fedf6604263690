"""Points of a sweep: every combination of values, listed or drawn, with every seed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.stats import loguniform

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import sha256
from toolkit.config.commands.train import SweepConfig, ValueRange

MAX_NAME_LENGTH = 150  # file systems take 255 bytes


@dataclass(frozen=True)
class GridPoint:
    """A configuration of a sweep, with one of its seeds."""

    values: Mapping[str, str]
    """Option -> value, as text."""
    seed: int | None
    """None if the sweep does not vary the seed."""

    @property
    def configuration(self) -> str:
        """Label shared by all seeds: `arch.fixed=true,lr=1e-4`; empty without a grid."""
        return ",".join(f"{key}={value}" for key, value in self.values.items())

    @property
    def name(self) -> str:
        """Name of its folder: `arch.fixed=true,seed=1`."""
        seed = [] if self.seed is None else [f"seed={self.seed}"]
        return folder_name(",".join([*filter(None, [self.configuration]), *seed]))

    def flags(self) -> list[str]:
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in self.values.items()]
        return flags if self.seed is None else [*flags, f"--training.seed={self.seed}"]


def grid_points(c: SweepConfig) -> list[GridPoint]:
    """All combinations of listed values and drawn trials; the seed varies fastest."""
    ranges, seeds = c.ranges(), list[int | None](c.seeds) or [None]
    listed = {option: values for option, values in c.parse_grid().items() if option not in ranges}
    trials = draw_trials(ranges, c.trials) if ranges else [{}]
    points = [
        GridPoint({**dict(zip(listed, values, strict=True)), **trial}, seed)
        for values in product(*listed.values())
        for trial in trials
        for seed in seeds
    ]
    [(name, count)] = Counter(point.name for point in points).most_common(1)
    if count > 1:
        raise ToolkitError(
            f"values of sweep.grid must give different folder names (letters, digits, .+-=), but "
            f"{count} runs have the name {name!r}."
        )
    return points


def folder_name(text: str) -> str:
    """The text with unsafe characters replaced; long names end in a digest."""
    safe = re.sub(r"[^A-Za-z0-9._=+,-]", "_", text)
    if len(safe) <= MAX_NAME_LENGTH:
        return safe
    return f"{safe[:MAX_NAME_LENGTH]}~{sha256(text)[:8]}"


def insert_flags(argv: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Insert flags that override earlier ones; words after -- stay in place."""
    end = argv.index("--") if "--" in argv else len(argv)
    return [*argv[:end], *flags, *argv[end:]]


def draw_trials(ranges: Mapping[str, ValueRange], trials: int) -> list[dict[str, str]]:
    """Option -> value, as text, of each trial; draws that are equal count once.

    The draws of an option depend on its name and range alone: more trials continue the list, and
    every variant is trained with the same values.
    """
    drawn = [draw_values(option, found, trials) for option, found in ranges.items()]
    combinations = dict.fromkeys(zip(*drawn, strict=True))
    return [dict(zip(ranges, values, strict=True)) for values in combinations]


def draw_values(option: str, values: ValueRange, trials: int) -> list[str]:
    """Log-uniform numbers with four significant digits, or whole ones."""
    generator = np.random.default_rng(int(sha256(option)[:16], 16))
    margin = 0.5 if values.whole else 0.0
    numbers = loguniform.rvs(
        values.low - margin, values.high + margin, size=trials, random_state=generator
    )
    rounded = [round(x) if values.whole else float(f"{x:.4g}") for x in numbers]
    return [f"{min(max(x, values.low), values.high):.12g}" for x in rounded]
