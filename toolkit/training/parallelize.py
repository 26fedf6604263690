"""Activation checkpointing, compilation and sharding of a learner."""

from __future__ import annotations

import warnings

import torch

from toolkit.config.sections import TrainingConfig
from toolkit.distributed import World
from toolkit.models.heads import DetectionHead, TiedHead
from toolkit.models.interface import EncoderModel
from toolkit.nn.layer_stack import LayerStack
from toolkit.optim.precision import DTYPES
from toolkit.tasks.learner import Learner

MAX_GRAPHS = 64
"""Graphs that Dynamo may make of one function. All layers of a class share one: they differ in what
they select and pass on, each in training and evaluation, with and without padding."""


def parallelize(learner: Learner, world: World, c: TrainingConfig, precision: str) -> Learner:
    """The learner with the parallelism of the config; make the optimizer from it afterwards."""
    stacks = find_stacks(learner)
    layers = [layer for stack in stacks for layer in stack]
    for stack in stacks:
        stack.checkpoint_activations = c.checkpoint_activations
    for encoder in learner.modules():
        if isinstance(encoder, EncoderModel):
            encoder.uses_packing = encoder.uses_packing and c.packing
    if c.compile:
        compile_parts(learner, world.device)
    if c.sharding == "full":
        from toolkit.distributed.fsdp import apply_fsdp  # slow to import

        apply_fsdp(learner, layers, world, DTYPES.get(precision))
    return learner


def find_stacks(learner: Learner) -> list[LayerStack]:
    """All stacks of layers in a learner."""
    return [module for module in learner.modules() if isinstance(module, LayerStack)]


def compile_parts(learner: Learner, device: torch.device) -> None:
    """Compile layers and heads in place, each for all shapes; parameters keep their names.

    On a CPU they draw the same random numbers as others. On a GPU dropout would be a separate
    kernel then.
    """
    import torch._dynamo  # slow to import
    import torch.fx.experimental._config

    torch._dynamo.config.recompile_limit = MAX_GRAPHS
    torch._dynamo.config.specialize_float = True  # rates of dropout are not sizes
    torch.fx.experimental._config.use_duck_shape = False  # a length that equals a width may change
    warnings.filterwarnings("ignore", "Dynamo detected a call to a `functools.lru_cache`")
    layers = [layer for stack in find_stacks(learner) for layer in stack]
    heads = [module for module in learner.modules() if isinstance(module, TiedHead | DetectionHead)]
    for part in (*layers, *heads):
        part.compile(dynamic=True, options={"fallback_random": device.type == "cpu"})
