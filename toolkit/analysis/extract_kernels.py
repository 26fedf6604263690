"""Kernels that a model has learned, recorded by forward hooks.

Kernels that depend on the query or the key are averaged over the tokens of a text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from toolkit.analysis.kernel_table import KernelRows
from toolkit.models.interface import Inputs
from toolkit.nn.attention import Kernel, RelativeToKey
from toolkit.nn.ops.depthwise import DepthwiseConvolution


class TextBatch(NamedTuple):
    """A batch of sentences, and which tokens to average over."""

    inputs: Inputs
    included: Bool[Tensor, "B S"]


class ExtractedKernels(NamedTuple):
    kernels: list[KernelRows]
    """By layer."""
    undetermined: list[str]
    """Names of text-dependent kernels for which no token was read."""


class TapStatistics:
    """Mean and deviation of one kernel's taps over the included tokens."""

    def __init__(self, *, of_key: bool) -> None:
        self.of_key = of_key
        """Whether the taps belong to the key, at i - j."""
        self.fixed: Tensor | None = None
        self.sums: list[Tensor] = []
        """Number of tokens, sum and sum of squares, each [H, R]."""

    def update(self, taps: Float[Tensor, "#B H #S R"], included: Bool[Tensor, "B S"]) -> None:
        """Add taps; those that are equal for all tokens need no average."""
        taps = taps.detach().double()
        if taps.shape[0] == 1 and taps.shape[2] == 1:
            self.fixed = taps[0, :, 0]
        elif included.any():
            whole = taps.expand(len(included), -1, included.shape[1], -1)
            seen = whole.transpose(1, 2)[included]  # (B, H, S, R) -> (N, H, R)
            ones = torch.full_like(seen[0], len(seen))
            self.sums = add_sums(self.sums, [ones, seen.sum(0), seen.square().sum(0)])

    @property
    def is_determined(self) -> bool:
        return self.fixed is not None or bool(self.sums)

    def mean(self) -> Float[Tensor, "H R"]:
        """Mean taps at j - i."""
        mean = self.sums[1] / self.sums[0] if self.fixed is None else self.fixed
        return mean.flip(-1) if self.of_key else mean

    def deviation(self) -> Float[Tensor, "H R"] | None:
        if self.fixed is not None:
            return None
        count, total, squares = self.sums
        found = (squares / count - (total / count).square()).clamp(min=0).sqrt()
        return found.flip(-1) if self.of_key else found


def add_sums(before: list[Tensor], now: list[Tensor]) -> list[Tensor]:
    """Add sums aligned at offset 0; longer sentences may have more taps."""
    if not before:
        return now
    widest = max(before[0].shape[-1], now[0].shape[-1])
    return [pad_taps(a, widest) + pad_taps(b, widest) for a, b in zip(before, now, strict=True)]


def pad_taps(rows: Tensor, taps: int) -> Tensor:
    more = (taps - rows.shape[-1]) // 2
    return nn.functional.pad(rows, (more, more))


@torch.no_grad()
def extract_kernels(encoder: nn.Module, text: Iterable[TextBatch] = ()) -> ExtractedKernels:
    """All kernels of all layers by offset, including those of convolutions.

    Works for any architecture made of `Kernel`s and `DepthwiseConvolution`s.
    """
    averages = {
        path: TapStatistics(of_key=of_key) for path, of_key in list_kernels(encoder).items()
    }
    with observe_kernels(encoder, averages) as watch:
        watch(probe_batch(encoder))
        for batch in text:
            watch(batch)
    names = name_kernels(encoder, averages)
    known = [
        kernel_rows(path, names[path], average)
        for path, average in averages.items()
        if average.is_determined
    ]
    unknown = [names[path] for path, average in averages.items() if not average.is_determined]
    kernels = sorted([*known, *convolution_kernels(encoder)], key=lambda kernel: kernel.layer)
    return ExtractedKernels(kernels, list(dict.fromkeys(unknown)))


@contextmanager
def observe_kernels(
    encoder: nn.Module, averages: Mapping[str, TapStatistics]
) -> Iterator[Callable[[TextBatch], None]]:
    """A function that runs the encoder on a batch and updates the statistics."""
    counted: list[Tensor] = []

    def watch(batch: TextBatch) -> None:
        counted[:] = [batch.included]
        encoder(batch.inputs)

    def shown_to(average: TapStatistics) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda kernel, given, taps: average.update(taps, counted[0])

    training = encoder.training
    hooks = [
        encoder.get_submodule(path).register_forward_hook(shown_to(average))
        for path, average in averages.items()
    ]
    try:
        encoder.eval()
        yield watch
    finally:
        encoder.train(training)
        for hook in hooks:
            hook.remove()


def list_kernels(encoder: nn.Module) -> dict[str, bool]:
    """Path of each kernel -> whether its taps belong to the key."""
    terms = [module for module in encoder.modules() if isinstance(module, RelativeToKey)]
    of_key = {id(kernel) for term in terms for kernel in term.kernels}
    named = encoder.named_modules()
    return {path: id(module) in of_key for path, module in named if isinstance(module, Kernel)}


def probe_batch(encoder: Any) -> TextBatch:
    """Two sentences without included tokens, which reveal the kernels that are equal for all."""
    length = encoder.fixed_length or 2
    tokens = torch.zeros(2, length, dtype=torch.long, device=encoder.token_embedding.weight.device)
    spelled = Inputs(tokens, char_ids=tokens[:1, :1], word_index=tokens)
    return TextBatch(spelled, torch.zeros_like(tokens, dtype=torch.bool))


def name_kernels(encoder: nn.Module, paths: Iterable[str]) -> dict[str, str]:
    """Path -> name after the kernel's class, numbered if a layer has several."""
    plain = {path: kernel_kind(type(encoder.get_submodule(path))) for path in paths}
    alike = Counter((layer_number(path), name) for path, name in plain.items())
    given: Counter[tuple[int, str]] = Counter()
    found = {}
    for path, name in plain.items():
        key = layer_number(path), name
        given[key] += 1
        found[path] = f"{name} {given[key]}" if alike[key] > 1 else name
    return found


def kernel_kind(kind: type) -> str:
    """QueryKernel -> query, SharedQueryKernel -> shared query."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()
    return words.removesuffix(" kernel")


def layer_number(path: str) -> int:
    """Layer number, from 1, of a module path."""
    found = re.search(r"(?:^|\.)layers\.(\d+)\.", path)
    return int(found[1]) + 1 if found else 1


def kernel_rows(path: str, name: str, average: TapStatistics) -> KernelRows:
    mean, deviation = average.mean(), average.deviation()
    return KernelRows(
        layer=layer_number(path),
        name=name,
        by="head",
        offsets=tap_offsets(mean),
        mean=mean.tolist(),
        deviation=None if deviation is None else deviation.tolist(),
    )


def convolution_kernels(encoder: nn.Module) -> list[KernelRows]:
    """Kernels by channel: of the values (depthwise), or of projections."""
    found = []
    for path, module in encoder.named_modules():
        if isinstance(module, DepthwiseConvolution):
            taps = module.convolution.weight.detach()[:, 0].double()
            part = re.search(r"\.parts\.(\w+)\.", path)
            name = f"{part[1]} convolution" if part else "depthwise"
            found.append(
                KernelRows(
                    layer_number(path), name, "channel", tap_offsets(taps), taps.tolist(), None
                )
            )
    return found


def tap_offsets(taps: Tensor) -> list[int]:
    radius = taps.shape[-1] // 2
    return list(range(-radius, radius + 1))
