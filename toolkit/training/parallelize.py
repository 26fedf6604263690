"""Activation checkpointing, compilation and sharding of a learner."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import torch._dynamo
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.distributed.fsdp import apply_fsdp
from toolkit.models.interface import EncoderModel
from toolkit.nn.layer_stack import LayerStack
from toolkit.optim.precision import DTYPES
from toolkit.tasks.task import Learner

MAX_GRAPHS = 64
"""Graphs that Dynamo may make of one function. All layers of a class share one: they differ in what
they select and pass on, each in training and evaluation, with and without padding."""


def parallelize(learner: Learner, world: World, c: TrainingConfig, precision: str) -> Learner:
    """The learner with the parallelism of the config; make the optimizer from it afterwards.

    Compiled layers draw the same random numbers as others.
    """
    stacks = [module for module in learner.modules() if isinstance(module, LayerStack)]
    if c.checkpoint_activations and not stacks:
        raise ToolkitError(
            f"training.checkpoint_activations requires an encoder with a LayerStack, which "
            f"{type(learner.encoder).__name__} has not. Leave it out, or make the architecture's "
            f"list of layers a toolkit.nn.layer_stack.LayerStack."
        )
    layers = [layer for stack in stacks for layer in stack]
    for stack in stacks:
        stack.checkpoint_activations = c.checkpoint_activations
    for encoder in learner.modules():
        if isinstance(encoder, EncoderModel):
            encoder.uses_packing = encoder.uses_packing and c.packing
    if c.compile:
        compile_layers(layers)
    if c.sharding == "full":
        apply_fsdp(learner, layers, world, DTYPES.get(precision))
    return learner


def compile_layers(layers: Iterable[nn.Module]) -> None:
    """Compile in place for dynamic lengths; parameters keep their names."""
    torch._dynamo.config.recompile_limit = MAX_GRAPHS
    warnings.filterwarnings("ignore", "Dynamo detected a call to a `functools.lru_cache`")
    for layer in layers:
        layer.compile(options={"fallback_random": True})
