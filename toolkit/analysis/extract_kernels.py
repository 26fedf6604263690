"""The kernels that a model has learnt, read off while it reads; nothing in it is changed.

Those that depend on the query or the key are averaged over the tokens of a text.
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


class Text(NamedTuple):
    """A batch of sentences, and which of their tokens count."""

    inputs: Inputs
    counted: Bool[Tensor, "B S"]


class Learnt(NamedTuple):
    kernels: list[KernelRows]
    """Layer by layer, as far as they are known."""
    unknown: list[str]
    """Names of those that depend on the text, where no token of one was read."""


class Average:
    """Mean and deviation of one kernel's taps over the tokens that count."""

    def __init__(self, *, of_key: bool) -> None:
        self.of_key = of_key
        """Whether the taps are those of the key, at i - j."""
        self.fixed: Tensor | None = None
        self.sums: list[Tensor] = []
        """Tokens, sum and sum of squares, each [H, R]."""

    def see(self, taps: Float[Tensor, "#B H #S R"], counted: Bool[Tensor, "B S"]) -> None:
        """Taps that are the same at every place of every sentence need no average."""
        taps = taps.detach().double()
        if taps.shape[0] == 1 and taps.shape[2] == 1:
            self.fixed = taps[0, :, 0]
        elif counted.any():
            whole = taps.expand(len(counted), -1, counted.shape[1], -1)
            seen = whole.transpose(1, 2)[counted]  # (B, H, S, R) -> (N, H, R)
            ones = torch.full_like(seen[0], len(seen))
            self.sums = added(self.sums, [ones, seen.sum(0), seen.square().sum(0)])

    @property
    def known(self) -> bool:
        return self.fixed is not None or bool(self.sums)

    def mean(self) -> Float[Tensor, "H R"]:
        """At j - i, whosever taps they are."""
        mean = self.sums[1] / self.sums[0] if self.fixed is None else self.fixed
        return mean.flip(-1) if self.of_key else mean

    def deviation(self) -> Float[Tensor, "H R"] | None:
        if self.fixed is not None:
            return None
        count, total, squares = self.sums
        found = (squares / count - (total / count).square()).clamp(min=0).sqrt()
        return found.flip(-1) if self.of_key else found


def added(before: list[Tensor], now: list[Tensor]) -> list[Tensor]:
    """Sums added up around offset 0; a longer sentence may have taps further out."""
    if not before:
        return now
    widest = max(before[0].shape[-1], now[0].shape[-1])
    return [widened(a, widest) + widened(b, widest) for a, b in zip(before, now, strict=True)]


def widened(rows: Tensor, taps: int) -> Tensor:
    more = (taps - rows.shape[-1]) // 2
    return nn.functional.pad(rows, (more, more))


@torch.no_grad()
def learnt_kernels(encoder: nn.Module, text: Iterable[Text] = ()) -> Learnt:
    """Every kernel of every layer by offset, those of convolutions too.

    Any architecture's are found whose attention is made of `Kernel`s and `DepthwiseConvolution`s.
    """
    averages = {path: Average(of_key=of_key) for path, of_key in kernels_of(encoder).items()}
    with watched(encoder, averages) as watch:
        watch(unread(encoder))
        for batch in text:
            watch(batch)
    names = names_of(encoder, averages)
    known = [
        rows(path, names[path], average) for path, average in averages.items() if average.known
    ]
    unknown = [names[path] for path, average in averages.items() if not average.known]
    kernels = sorted([*known, *convolutions(encoder)], key=lambda kernel: kernel.layer)
    return Learnt(kernels, list(dict.fromkeys(unknown)))


@contextmanager
def watched(
    encoder: nn.Module, averages: Mapping[str, Average]
) -> Iterator[Callable[[Text], None]]:
    """A function that lets the encoder read a batch while the averages see its kernels' taps."""
    counted: list[Tensor] = []

    def watch(batch: Text) -> None:
        counted[:] = [batch.counted]
        encoder(batch.inputs)

    def shown_to(average: Average) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda kernel, given, taps: average.see(taps, counted[0])

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


def kernels_of(encoder: nn.Module) -> dict[str, bool]:
    """Path of each kernel -> whether its taps are those of the key."""
    terms = [module for module in encoder.modules() if isinstance(module, RelativeToKey)]
    of_key = {id(kernel) for term in terms for kernel in term.kernels}
    named = encoder.named_modules()
    return {path: id(module) in of_key for path, module in named if isinstance(module, Kernel)}


def unread(encoder: Any) -> Text:
    """Two sentences of which no token counts: they show which kernels are the same in all."""
    places = getattr(encoder, "fixed_length", 2)
    tokens = torch.zeros(2, places, dtype=torch.long, device=encoder.words.weight.device)
    spelt = Inputs(tokens, spellings=tokens[:1, :1], spelled=tokens)
    return Text(spelt, torch.zeros_like(tokens, dtype=torch.bool))


def names_of(encoder: nn.Module, paths: Iterable[str]) -> dict[str, str]:
    """Path -> fixed, query, key, ... after its class; numbered where a layer has several alike."""
    plain = {path: name_of(type(encoder.get_submodule(path))) for path in paths}
    alike = Counter((layer_of(path), name) for path, name in plain.items())
    given: Counter[tuple[int, str]] = Counter()
    found = {}
    for path, name in plain.items():
        key = layer_of(path), name
        given[key] += 1
        found[path] = f"{name} {given[key]}" if alike[key] > 1 else name
    return found


def name_of(kind: type) -> str:
    """QueryKernel -> query, SharedQueryKernel -> shared query."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()
    return words.removesuffix(" kernel")


def layer_of(path: str) -> int:
    """From 1, as the path of the module tells it."""
    found = re.search(r"(?:^|\.)layers\.(\d+)\.", path)
    return int(found[1]) + 1 if found else 1


def rows(path: str, name: str, average: Average) -> KernelRows:
    mean, deviation = average.mean(), average.deviation()
    return KernelRows(
        layer=layer_of(path),
        name=name,
        by="head",
        offsets=offsets(mean),
        mean=mean.tolist(),
        deviation=None if deviation is None else deviation.tolist(),
    )


def convolutions(encoder: nn.Module) -> list[KernelRows]:
    """Kernels of each channel: of the values (depthwise), or of projections."""
    found = []
    for path, module in encoder.named_modules():
        if isinstance(module, DepthwiseConvolution):
            taps = module.convolution.weight.detach()[:, 0].double()
            part = re.search(r"\.parts\.(\w+)\.", path)
            name = f"{part[1]} convolution" if part else "depthwise"
            found.append(
                KernelRows(layer_of(path), name, "channel", offsets(taps), taps.tolist(), None)
            )
    return found


def offsets(taps: Tensor) -> list[int]:
    radius = taps.shape[-1] // 2
    return list(range(-radius, radius + 1))
