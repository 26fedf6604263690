"""Random search: values drawn from the ranges of a sweep (Bergstra and Bengio 2012)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import loguniform

from toolkit.common.digest import sha256
from toolkit.config.commands.train import ValueRange


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
