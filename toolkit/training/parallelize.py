"""Activation checkpointing, compilation and sharding of a learner."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.distributed.fsdp import apply_fsdp
from toolkit.nn.layer_stack import LayerStack
from toolkit.optim.precision import DTYPES
from toolkit.tasks.task import Learner


def parallelize(learner: Learner, world: World, c: TrainingConfig, precision: str) -> Learner:
    """The learner as the config wants it kept; make the optimizer from its parameters afterwards.

    Compiled layers draw the random numbers of those that are not.
    """
    stacks = [module for module in learner.modules() if isinstance(module, LayerStack)]
    if c.checkpoint_activations and not stacks:
        raise ToolkitError(
            f"training.checkpoint_activations must be off for an encoder without layers of "
            f"toolkit.nn.layer_stack, but is on for {type(learner.encoder).__name__}. Leave it "
            f"out, or make the architecture's list of layers a Layers."
        )
    layers = [layer for stack in stacks for layer in stack]
    for stack in stacks:
        stack.checkpoint_activations = c.checkpoint_activations
    if c.compile:
        compile_layers(layers)
    if c.sharding == "full":
        apply_fsdp(learner, layers, world, DTYPES.get(precision))
    return learner


def compile_layers(layers: Iterable[nn.Module]) -> None:
    """Compile in place for dynamic lengths; parameter names stay."""
    warnings.filterwarnings("ignore", "Dynamo detected a call to a `functools.lru_cache`")
    for layer in layers:
        layer.compile(options={"fallback_random": True})
