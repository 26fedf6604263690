"""Options whose values change during a run: `0.4:0.15`, `64@0,256@5epochs`.

t is the number of elapsed epochs, a fraction within an epoch, and T that of the whole run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.config.declared import Option, check_value

NUMBERS = {float: r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", int: r"[-+]?\d+"}
TIME = r"(0|\d+\.?\d*(?=epoch|%))(epochs?|%|)"
EXAMPLES = {float: "0.4@0,0.15@5epochs", int: "64@0,256@5epochs"}

Number = int | float


class ValueStep(NamedTuple):
    """A value and the time from which on it is used."""

    value: Number
    time: float = 0.0
    unit: str = ""
    """% for a time in percent of the run; else it is in epochs."""

    def epochs(self, total: float) -> float:
        """The time in epochs, in a run of `total`."""
        return self.time / 100 * total if self.unit == "%" else self.time


@dataclass(frozen=True)
class ValueSchedule:
    """The values of an option over a run, from their text.

    START:END           START + (END - START) t / T
    A@0,B@TIME,...      the latest value whose time has come: 5epochs, or 50% of the run
    """

    text: str
    steps: tuple[ValueStep, ...]
    is_linear: bool

    @property
    def values(self) -> list[Number]:
        """The value of each step; the last one is that of evaluation."""
        return [step.value for step in self.steps]

    def value(self, elapsed: float, total: float) -> Number:
        """The value after this many epochs, in a run of `total`."""
        if self.is_linear:
            start, end = self.values
            return start + (end - start) * min(1.0, elapsed / total)
        return [step.value for step in self.steps if step.epochs(total) <= elapsed][-1]


def parse_schedule(option: Option, text: object) -> ValueSchedule | None:
    """The schedule that a text means for an option that is a number; None if it means none."""
    kind = option.type.scalar
    if not isinstance(text, str) or kind not in NUMBERS or option.type.is_list:
        return None
    number = NUMBERS[kind]
    linear = re.fullmatch(f"({number}):({number})", text)
    if linear and kind is float:
        steps = [ValueStep(float(value)) for value in linear.groups()]
    elif linear or "@" in text:
        found = re.findall(rf"(?:^|,)\s*({number})@{TIME}\s*(?=,|$)", text)
        steps = [ValueStep(kind(value), float(time), unit) for value, time, unit in found]
        times, units = [step.time for step in steps], {step.unit.rstrip("s") for step in steps[1:]}
        if len(found) <= text.count(",") or times != sorted({0.0, *times}) or len(units) > 1:
            raise ToolkitError(
                f"{option.path} must have steps from VALUE@0 to later times in epochs or in "
                f"percent of the run, such as {EXAMPLES[kind]}, but is {text}."
            )
    else:
        return None
    for step in steps:
        check_value(option.path, option.type, step.value)
    return ValueSchedule(text, tuple(steps), bool(linear))


@dataclass
class RunSchedules:
    """The schedules of a run by the paths of their options, and the length of the run."""

    schedules: Mapping[str, ValueSchedule] = field(default_factory=dict)
    epochs: float = 1.0
    """Epochs of the run, the last one in part; known once its data are loaded."""

    def value(self, path: str, epoch: int | float | None, default: Number = 0.0) -> Number:
        """The value of an option in an epoch, counted from 1 with its elapsed fraction.

        In evaluation, where the epoch is None, the last one; without a schedule the default.
        """
        if path not in self.schedules:
            return default
        schedule = self.schedules[path]
        return schedule.values[-1] if epoch is None else schedule.value(epoch - 1, self.epochs)

    def check_reached(self) -> None:
        """Raise a ToolkitError if a step comes after the end of the run."""
        for path, schedule in self.schedules.items():
            step = schedule.steps[-1]
            if step.epochs(self.epochs) >= self.epochs > 0 and not schedule.is_linear:
                raise ToolkitError(
                    f"{path} must reach {step.value:g} before the run ends, but that is after "
                    f"{step.epochs(self.epochs):g} epochs and the run has {self.epochs:.4g}. "
                    f"Choose an earlier step or a longer run."
                )
