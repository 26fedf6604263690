"""One update of a training run on a fake GPU, through the toolkit's own trainer."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _foreach_utils

from tests.gpu.batches import BATCHES, Shape, full_packing
from tests.gpu.launches import LaunchCounter
from tests.gpu.sdpa import scaled_dot_product_attention
from toolkit.common.registry import ARCHITECTURES, CRITERIA, OPTIMIZERS, TASKS
from toolkit.config.sections import ComponentConfig, TrainingConfig
from toolkit.distributed import World
from toolkit.models.interface import EncoderModel, Sizes
from toolkit.optim.update import Precision, SpikeDetector
from toolkit.tasks import examples
from toolkit.tasks.build import build_learner
from toolkit.tasks.learner import Learner
from toolkit.training.trainer import Trainer

DEVICE = torch.device("cuda", 0)
FULL, VOCABULARY = Shape(4, 24), 1000
Counting = TypeVar("Counting", bound=LaunchCounter)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A training run, as far as an update depends on it."""

    arch: str
    task: str
    shape: Shape = FULL
    precision: str = "bf16"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the architecture."""
    task_options: Mapping[str, Any] = field(default_factory=dict)
    optimizer: str = "adamw"
    vocabulary: int = VOCABULARY
    spikes: bool = False
    """Whether updates with spikes are skipped."""

    @property
    def name(self) -> str:
        options = {**self.options, **self.task_options}
        given = [f"{key}={value}" for key, value in options.items()]
        given += ["pieces"] * self.shape.pieces + ["spikes"] * self.spikes
        given += [f"V={self.vocabulary}"] * (self.vocabulary != VOCABULARY)
        given += [self.optimizer] * (self.optimizer != "adamw")
        padded = "padding" if self.shape.padding else "full"
        size = f"{self.shape.sentences}x{self.shape.length}"
        return " ".join([self.arch, self.task, size, self.precision, padded, *given])


class Counts(NamedTuple):
    """Of one update, by phase."""

    launches: dict[str, int]
    bytes: dict[str, int]
    waits: list[str]


def count_update(case: Case) -> Counts:
    with fake_device():
        counter = take_step(build_trainer(case), case.task, case.shape)
    return Counts(
        counter.by_phase(counter.launches), counter.by_phase(counter.bytes), counter.waits
    )


def take_step(
    trainer: Trainer, task: str, shape: Shape, new_counter: Callable[[], Counting] = LaunchCounter
) -> Counting:
    made = BATCHES[task](shape)
    known = dict(made.weights), False  # numbers on the host, which fake tensors do not have
    with (
        new_counter() as counter,
        phases(counter, trainer),
        patch.object(trainer, "sync_weights_and_stop", lambda batches: known),
    ):
        trainer.step([made], 10**9)
    return counter


@contextmanager
def phases(counter: LaunchCounter, trainer: Trainer) -> Iterator[None]:
    """Tell the counter when the backward pass and the optimizer begin."""
    backward, update = Tensor.backward, trainer.apply_update

    def enter(phase: str, call: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            counter.phase = phase
            return call(*args, **kwargs)

        return run

    with (
        patch.object(Tensor, "backward", enter("backward", backward)),
        patch.object(trainer, "apply_update", enter("optimizer", update)),
    ):
        yield


@contextmanager
def fake_device() -> Iterator[None]:
    """Tensors on "cuda" without numbers, and kernels that only have shapes."""
    clear_caches()
    with ExitStack() as stack:
        stack.enter_context(
            patch.object(
                nn.functional, "scaled_dot_product_attention", scaled_dot_product_attention
            )
        )
        stack.enter_context(patch.object(examples, "pack_padding", full_packing))
        stack.enter_context(patch.object(Tensor, "pin_memory", lambda t: t))
        stack.enter_context(patch.object(EncoderModel, "check_ids", lambda *args: None))
        grouped = [*_foreach_utils._foreach_supported_types, FakeTensor]
        stack.enter_context(patch.object(_foreach_utils, "_foreach_supported_types", grouped))
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=False))
        stack.enter_context(torch.autograd.set_multithreading_enabled(False))
        yield
    clear_caches()


def clear_caches() -> None:
    """Forget tables kept for reuse: a fake tensor belongs to its mode."""
    for name, module in list(sys.modules.items()):
        if name.startswith("toolkit.nn."):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def build_trainer(case: Case) -> Trainer:
    learner = move_parameters(build_case_learner(case))
    optimizer = OPTIMIZERS[case.optimizer]
    world = World(device=DEVICE)
    return Trainer(
        learner,
        CRITERIA["cross_entropy"].factory(CRITERIA["cross_entropy"].config),
        optimizer.factory(optimizer.config, list(learner.named_parameters())),
        lambda update: 1e-4,
        world=world,
        precision=Precision.for_training(case.precision, TrainingConfig(), world),
        clip_norm=1.0,
        spike_detector=SpikeDetector(DEVICE) if case.spikes else None,
    )


def build_case_learner(case: Case) -> Learner:
    """The learner of a case, without numbers."""
    arch = dataclasses.replace(ARCHITECTURES[case.arch].config, **case.options)
    task = dataclasses.replace(TASKS[case.task].config, **case.task_options)
    v = case.vocabulary
    sizes = Sizes(tokens=v, characters=100, tags=20, targets=v, labels=3)
    with torch.device("meta"):
        return build_learner(
            ComponentConfig(case.arch, arch), ComponentConfig(case.task, task), sizes
        )


def move_parameters(learner: Learner) -> Learner:
    """The learner with new parameters and buffers on the fake device; shared ones stay shared."""
    moved: dict[int, Tensor] = {}
    for module in learner.modules():
        for kept in (module._parameters, module._buffers):
            for name, old in kept.items():
                if old is not None and id(old) not in moved:
                    new = torch.empty(old.shape, dtype=old.dtype, device=DEVICE)
                    is_parameter = isinstance(old, nn.Parameter)
                    moved[id(old)] = nn.Parameter(new, old.requires_grad) if is_parameter else new
                if old is not None:
                    kept[name] = moved[id(old)]
    return learner
