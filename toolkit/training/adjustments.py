"""Options of the model and of the optimizer whose values change during a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from toolkit.common.errors import ToolkitError
from toolkit.config.schedules import Number, RunSchedules, ValueSchedule
from toolkit.config.sections import RunConfig
from toolkit.tasks.build import build_learner
from toolkit.tasks.learner import Learner, Origin
from toolkit.training.cuda_graphs import GraphedAccumulator
from toolkit.training.data import TrainingData
from toolkit.training.trainer import Adjustment, Trainer

WEIGHT_DECAY = "optimizer.weight_decay"

Attribute = tuple[nn.Module, str, Mapping[Number, Number]]
"""A number of a module, and what it is for the values of an option."""


def make_adjustments(c: RunConfig, data: TrainingData, trainer: Trainer) -> list[Adjustment]:
    """One for each scheduled option that the data do not follow themselves."""
    adjustments: list[Adjustment] = []
    for path, schedule in c.schedules.items():
        if path in data.scheduled:
            continue
        if path == WEIGHT_DECAY:
            adjustments.append(partial(set_weight_decay, trainer.optimizer, data.schedules))
        else:
            found = find_attributes(trainer.learner, path, schedule)
            adjustments.append(partial(set_attributes, found, path, data.schedules))
        if c.training.compile and path != WEIGHT_DECAY:
            raise ToolkitError(
                f"{path} cannot change during a run with --compile, which keeps its value. Leave "
                f"it out, or give {path} one value."
            )
        if isinstance(trainer.accumulator, GraphedAccumulator):
            trainer.accumulator.graphs.stop(ToolkitError(f"{path} changes during the run."))
    return adjustments


def set_weight_decay(optimizer: Optimizer, schedules: RunSchedules, epoch: float | None) -> None:
    """Set the weight decay of the groups that have one."""
    for group in optimizer.param_groups:
        if not group["no_decay"]:
            group["weight_decay"] = schedules.value(WEIGHT_DECAY, epoch)


def set_attributes(
    found: list[Attribute], path: str, schedules: RunSchedules, epoch: float | None
) -> None:
    """Set numbers of modules to what they are for the value of an option."""
    value = schedules.value(path, epoch)
    for module, name, numbers in found:
        setattr(module, name, numbers.get(value, value))


def find_attributes(learner: Learner, path: str, schedule: ValueSchedule) -> list[Attribute]:
    """The numbers that differ between learners with the values of a scheduled option.

    Raises a ToolkitError if there is none, or if anything else differs. A linear schedule has other
    values than those that learners are built with, so each number must be the option's value.
    """
    (section, _, name), origin = path.partition("."), learner.require_origin()
    built: list[dict[tuple[str, str], object]] = []
    for value in schedule.values if section in ("arch", "task") else ():
        component = getattr(origin, section)
        config = replace(component.config, **{name: value})
        changed = origin._replace(**{section: replace(component, config=config)})
        with torch.random.fork_rng(devices=[]):
            built.append(describe_modules(build_learner(*changed[:3])))
    keys = {key for a in built for b in built for key in a.keys() | b if a.get(key) != b.get(key)}
    numbers: dict[tuple[str, str], Any] = {key: [it.get(key) for it in built] for key in keys}
    followed = all(
        {*map(type, it)} <= {int, float} and (it == schedule.values or not schedule.is_linear)
        for it in numbers.values()
    )
    if not numbers or not followed:
        hint = "" if path != "optimizer.lr" else " The learning rate follows --lr-scheduler."
        raise ToolkitError(f"{path} must be one number: it cannot change during a run.{hint}")
    return [
        (learner.get_submodule(module), attribute, dict(zip(schedule.values, it, strict=True)))
        for (module, attribute), it in numbers.items()
    ]


def describe_modules(model: nn.Module) -> dict[tuple[str, str], object]:
    """Name and attribute of a module -> its value; also its class, and the shapes of tensors."""
    parts: dict[tuple[str, str], object] = {
        (name, "shape"): tensor.shape for name, tensor in model.state_dict().items()
    }
    for name, module in model.named_modules():
        parts[name, "class"] = type(module)
        for attribute, value in vars(module).items():
            if not isinstance(value, nn.Module | Tensor | Origin | dict):
                parts[name, attribute] = value
    return parts
