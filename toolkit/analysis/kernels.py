"""toolkit-plot kernels: kernels that trained models have learned."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from toolkit.analysis.kernels_plot import KernelRows, draw_kernels, kernel_table
from toolkit.analysis.plot_style import open_plot, parse_labels, plot_style, save_plot
from toolkit.analysis.read_text import (
    TextBatch,
    batch_lines,
    check_selection,
    evaluating,
    load_reader,
    read_lines,
    with_progress,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import KernelsConfig
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.nn.attention import Kernel, RelativeToKey
from toolkit.nn.ops.depthwise import DepthwiseConvolution
from toolkit.reporting.console import Output


def plot_kernels(c: KernelsConfig) -> None:
    """Draw, print and write the kernels of all checkpoints."""
    given = parse_labels(c.labels, c.path)
    lines = read_lines(c.sentences) if c.sentences else []
    with open_plot(c) as output:
        by_path = {path: load_kernels(path, lines, c) for path in c.path}
        for path, kernels in by_path.items():
            for kernel in kernels:
                output.write("kernel", {"checkpoint": path, **kernel.to_record()})
            print_table(path, kernels, output, several=len(by_path) > 1)
        drawn = {given.get(path, path): kernels_to_draw(it, c) for path, it in by_path.items()}
        with plot_style(c):
            save_plot(draw_kernels(drawn, c.title), c)
        print(c.output_file, file=output.text_stream)


def load_kernels(path: str, lines: Sequence[str], c: KernelsConfig) -> list[KernelRows]:
    """The selected kernels of a checkpoint; omitted ones are reported."""
    learner = load_reader(path, c.device)
    batches = list(batch_lines(learner, lines))
    learned = extract_kernels(learner.encoder, with_progress(batches, f"reading {c.sentences}"))
    if not learned.kernels and not learned.undetermined:
        raise ToolkitError(
            f"toolkit-plot kernels requires a model with kernels, such as composite_bert; {path} "
            f"has none. Draw its attention maps with toolkit-plot attention."
        )
    if learned.undetermined:
        names = " and ".join(learned.undetermined)
        hint = "Pass --sentences FILE"
        if not learned.kernels:
            raise ToolkitError(f"the {names} kernels of {path} depend on the text. {hint}.")
        print(f"{names} kernels depend on the text. {hint} to draw them too.", file=sys.stderr)
    return select_kernels(learned.kernels, path, c)


def select_kernels(kernels: Sequence[KernelRows], path: str, c: KernelsConfig) -> list[KernelRows]:
    """The selected layers and heads, up to the radius."""
    layers = sorted({kernel.layer for kernel in kernels})
    check_selection("layers", c.layers, layers, path)
    heads = max((len(kernel.mean) for kernel in kernels if kernel.by == "head"), default=0)
    check_selection("heads", c.heads, range(1, heads + 1), path)
    selected = [kernel.crop(c.radius) for kernel in kernels if kernel.layer in (c.layers or layers)]
    return [kernel.select_heads(c.heads) if c.heads else kernel for kernel in selected]


def kernels_to_draw(kernels: Sequence[KernelRows], c: KernelsConfig) -> list[KernelRows]:
    """The kernels to draw: by channel only the last layer, unless layers are selected."""
    deepest = max((kernel.layer for kernel in kernels if kernel.by == "channel"), default=0)
    return [k for k in kernels if k.by == "head" or c.layers or k.layer == deepest]


def print_table(path: str, kernels: Sequence[KernelRows], output: Output, *, several: bool) -> None:
    """Print the numbers of one checkpoint."""
    console = output.console
    if several:
        output.print_line(path)
    kernel_table(kernels, console.width if console.is_terminal else None).print(console)


class ExtractedKernels(NamedTuple):
    """The kernels of a model, and those that could not be determined."""

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
            all_taps = taps.expand(len(included), -1, included.shape[1], -1)
            taps = all_taps.transpose(1, 2)[included]  # (B, H, S, R) -> (N, H, R)
            counts = torch.full_like(taps[0], len(taps))
            self.sums = add_sums(self.sums, [counts, taps.sum(0), taps.square().sum(0)])

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
        deviation = (squares / count - (total / count).square()).clamp(min=0).sqrt()
        return deviation.flip(-1) if self.of_key else deviation


def add_sums(before: list[Tensor], now: list[Tensor]) -> list[Tensor]:
    """Add sums aligned at offset 0; longer sentences may have more taps."""
    if not before:
        return now
    taps = max(before[0].shape[-1], now[0].shape[-1])
    return [pad_taps(a, taps) + pad_taps(b, taps) for a, b in zip(before, now, strict=True)]


def pad_taps(rows: Tensor, taps: int) -> Tensor:
    """Taps padded with zeros on both sides to this number."""
    each_side = (taps - rows.shape[-1]) // 2
    return nn.functional.pad(rows, (each_side, each_side))


@torch.no_grad()
def extract_kernels(encoder: EncoderModel, text: Iterable[TextBatch] = ()) -> ExtractedKernels:
    """All kernels of all layers by offset, including those of convolutions.

    Works for any architecture made of `Kernel`s and `DepthwiseConvolution`s.
    """
    statistics = {
        path: TapStatistics(of_key=of_key) for path, of_key in list_kernels(encoder).items()
    }
    update_statistics(encoder, statistics, chain([probe_batch(encoder)], text))
    names = name_kernels(encoder, statistics)
    kernels = [kernel_rows(p, names[p], s) for p, s in statistics.items() if s.is_determined]
    kernels += convolution_kernels(encoder)
    undetermined = [names[path] for path, s in statistics.items() if not s.is_determined]
    by_layer = sorted(kernels, key=lambda kernel: kernel.layer)
    return ExtractedKernels(by_layer, list(dict.fromkeys(undetermined)))


def update_statistics(
    encoder: EncoderModel, statistics: Mapping[str, TapStatistics], text: Iterable[TextBatch]
) -> None:
    """Run the encoder on the text and add the taps of each kernel to its statistics."""
    batch: TextBatch

    def record_taps(kernel: TapStatistics) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda _, args, taps: kernel.update(taps, batch.included)

    hooks = [
        encoder.get_submodule(path).register_forward_hook(record_taps(kernel))
        for path, kernel in statistics.items()
    ]
    with evaluating(encoder, hooks):
        for batch in text:
            encoder(batch.inputs)


def list_kernels(encoder: nn.Module) -> dict[str, bool]:
    """Path of each kernel -> whether its taps belong to the key."""
    terms = [module for module in encoder.modules() if isinstance(module, RelativeToKey)]
    of_key = {id(kernel) for term in terms for kernel in term.kernels}
    named = encoder.named_modules()
    return {path: id(module) in of_key for path, module in named if isinstance(module, Kernel)}


def probe_batch(encoder: EncoderModel) -> TextBatch:
    """Two sentences without included tokens, which reveal the kernels that are equal for all."""
    length = encoder.fixed_length or 2
    tokens = torch.zeros(2, length, dtype=torch.long, device=encoder.token_embedding.weight.device)
    inputs = Inputs(tokens, char_ids=tokens[:1, :1], word_index=tokens)
    return TextBatch(inputs, torch.zeros_like(tokens, dtype=torch.bool))


def name_kernels(encoder: nn.Module, paths: Iterable[str]) -> dict[str, str]:
    """Path -> name after the kernel's class, numbered if a layer has several."""
    groups: dict[tuple[int, str], list[str]] = {}
    for path in paths:
        key = layer_number(path), kernel_kind(type(encoder.get_submodule(path)))
        groups.setdefault(key, []).append(path)
    return {
        path: f"{name} {number}" if len(group) > 1 else name
        for (_, name), group in groups.items()
        for number, path in enumerate(group, 1)
    }


def kernel_kind(kind: type) -> str:
    """QueryKernel -> query, SharedQueryKernel -> shared query."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()
    return words.removesuffix(" kernel")


def layer_number(path: str) -> int:
    """Layer number, from 1, of a module path."""
    match = re.search(r"(?:^|\.)layers\.(\d+)\.", path)
    return int(match[1]) + 1 if match else 1


def kernel_rows(path: str, name: str, statistics: TapStatistics) -> KernelRows:
    """The collected statistics of a kernel as rows by head."""
    mean, deviation = statistics.mean(), statistics.deviation()
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
    kernels = []
    for path, module in encoder.named_modules():
        if isinstance(module, DepthwiseConvolution):
            taps = module.convolution.weight.detach()[:, 0].double()
            part = re.search(r"\.parts\.(\w+)\.", path)
            name = f"{part[1]} convolution" if part else "depthwise"
            offsets, rows = tap_offsets(taps), taps.tolist()
            kernels.append(
                KernelRows(layer_number(path), name, "channel", offsets, rows, deviation=None)
            )
    return kernels


def tap_offsets(taps: Tensor) -> list[int]:
    """Offsets of the taps, from -radius to radius."""
    radius = taps.shape[-1] // 2
    return list(range(-radius, radius + 1))
