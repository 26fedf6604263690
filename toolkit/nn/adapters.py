"""Adapters: trained changes of a model whose other weights stay as they are.

Linear maps get them in place, by their class, so that all parameters keep their names and whatever
reads `weight` reads the changed one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from toolkit.common.errors import ToolkitError
from toolkit.distributed.data_parallel import is_sharded_tensor
from toolkit.nn.attention import Attention, CrossAttention
from toolkit.nn.init import INIT_STD
from toolkit.nn.layers import FeedForward, LayerStack, StreamLayer

TARGETS = ("query", "key", "value", "output", "feed_forward")
"""Linear maps that LoRA can change."""


class LowRank(nn.Module):
    """s U D for the rows from `start`: U of zeros at first, D normal (Hu et al. 2022, eq. 3)."""

    def __init__(self, start: int, rows: int, columns: int, rank: int, scale: float) -> None:
        super().__init__()
        self.start, self.scale = start, scale
        self.up = nn.Parameter(torch.zeros(rows, rank))
        self.down = nn.Parameter(torch.empty(rank, columns))
        nn.init.normal_(self.down, std=INIT_STD)

    def forward(self, weight: Float[Tensor, "O I"]) -> Float[Tensor, "O I"]:
        """The weight with the change of these rows added."""
        after = len(weight) - self.start - len(self.up)
        change = self.scale * (self.up @ self.down)
        return weight + F.pad(change, (0, 0, self.start, after)).to(weight.dtype)


class Bottleneck(nn.Module):
    """y + U gelu(D y + a) + c of the output y of a sublayer, U of zeros at first (Houlsby et al.
    2019, section 2.1).
    """

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(width, inner), nn.Linear(inner, width)
        nn.init.normal_(self.down.weight, std=INIT_STD)
        for zeros in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(zeros)

    def forward(self, y: Float[Tensor, "*tokens D"]) -> Float[Tensor, "*tokens D"]:
        return y + self.up(F.gelu(self.down(y)))


class AdaptedLinear(nn.Linear):
    """A linear map with low-rank changes of its weight, or a bottleneck after it, or both."""

    low_rank: nn.ModuleList
    bottleneck: nn.Module

    @classmethod
    def adapt(cls, linear: nn.Linear) -> AdaptedLinear:
        """The same module, from now on with adapters."""
        if not isinstance(linear, cls):
            linear.__class__ = cls
            linear.low_rank, linear.bottleneck = nn.ModuleList(), nn.Identity()
        assert isinstance(linear, cls), "its class was changed"
        return linear

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """W and its changes; this rank's rows of W while it is sharded, for FSDP to gather."""
        weight = self._parameters["weight"]
        assert weight is not None, "linear maps have one"
        for change in () if is_sharded_tensor(weight) else self.low_rank:
            weight = change(weight)
        return weight

    def forward(self, x: Float[Tensor, "*tokens I"]) -> Float[Tensor, "*tokens O"]:
        return self.bottleneck(super().forward(x))

    @torch.no_grad()
    def merge(self) -> None:
        """Add the changes to W, and drop them."""
        self._parameters["weight"] = nn.Parameter(self.weight.clone())
        self.low_rank = nn.ModuleList()
        if isinstance(self.bottleneck, nn.Identity):
            del self.low_rank, self.bottleneck
            self.__class__ = nn.Linear  # type: ignore[assignment]


def list_maps(model: nn.Module) -> Iterator[tuple[str, nn.Linear, int, int]]:
    """The target, and the first of its rows and their number, of each linear map in the layers."""
    stacks = [stack for stack in model.modules() if isinstance(stack, LayerStack)]
    named = [item for stack in stacks for item in stack.named_modules()]
    modules = dict(named)
    for name, module in named:
        owner, _, last = name.rpartition(".")
        if not isinstance(module, nn.Linear):
            continue
        if last == "qkv":
            parts = modules[owner].parts
            if isinstance(parts, int):
                parts = parts * [module.out_features // parts]
            for number, target in enumerate(TARGETS[:3]):
                yield target, module, sum(parts[:number]), parts[number]
            continue
        parts_of_name = name.split(".")
        for target in TARGETS:
            if target in parts_of_name:
                yield target, module, 0, module.out_features


def add_low_rank(model: nn.Module, rank: int, alpha: float, targets: Collection[str]) -> None:
    """Change the targets by products of this rank, times alpha / rank."""
    maps = [it for it in list_maps(model) if it[0] in targets]
    if missing := {*targets} - {target for target, *_ in maps}:
        raise ToolkitError(
            f"training.lora_targets must name linear maps of the layers, but this architecture has "
            f"no {', '.join(sorted(missing))}. Choose from "
            f"{', '.join(dict.fromkeys(target for target, *_ in list_maps(model)))}."
        )
    for _, linear, start, rows in maps:
        change = LowRank(start, rows, linear.in_features, rank, alpha / rank)
        AdaptedLinear.adapt(linear).low_rank.append(change)


def add_bottlenecks(model: nn.Module, inner: int) -> None:
    """Add a bottleneck after the last linear map of each sublayer, before a norm that follows."""
    kinds = Attention | CrossAttention | FeedForward | StreamLayer
    sublayers = [it for it in model.modules() if isinstance(it, kinds)]
    lasts = [it.back if isinstance(it, FeedForward) else it.output for it in sublayers]
    ends = [[it for it in last.modules() if isinstance(it, nn.Linear)][-1:] for last in lasts]
    if not ends or not all(ends):
        raise ToolkitError(
            "--bottleneck requires an encoder whose sublayers end in linear maps without groups, "
            "such as bert. Choose --lora-rank."
        )
    for (linear,) in ends:
        AdaptedLinear.adapt(linear).bottleneck = Bottleneck(linear.out_features, inner)


def merge_low_rank(model: nn.Module) -> None:
    """Make all low-rank changes part of the weights; the outputs stay the same."""
    for module in [it for it in model.modules() if isinstance(it, AdaptedLinear)]:
        module.merge()
