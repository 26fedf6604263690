"""toolkit-plot kernels: kernels that trained models have learned."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from toolkit.analysis.kernels_plot import KernelRows, Rows, draw_kernels, kernel_table
from toolkit.analysis.plot_style import open_plot, parse_labels, write_plot
from toolkit.analysis.read_text import (
    TextBatch,
    batch_lines,
    check_selection,
    evaluating,
    load_reader,
    read_lines,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import KernelsConfig
from toolkit.models.interface import EncoderModel, Inputs
from toolkit.nn.attention import Kernel, RelativeToKey
from toolkit.nn.ops.convolution import DepthwiseConvolution


def plot_kernels(c: KernelsConfig) -> None:
    """Draw, print and write the kernels of all checkpoints."""
    given = parse_labels(c.labels, c.path)
    lines = read_lines(c.sentences) if c.sentences else []
    with open_plot(c) as output:
        by_path = {path: load_kernels(path, lines, c) for path in c.path}
        console, drawn = output.console, {}
        for path, kernels in by_path.items():
            for kernel in kernels:
                output.write("kernel", {"checkpoint": path, **kernel.to_record()})
            if len(by_path) > 1:
                output.print_line(path)
            kernel_table(kernels, console.width if console.is_interactive else None).print(console)
            # by channel only the last layer, unless layers are selected
            deepest = max((kernel.layer for kernel in kernels if kernel.by == "channel"), default=0)
            drawn[given.get(path, path)] = [
                it for it in kernels if it.by == "head" or c.layers or it.layer == deepest
            ]
        write_plot(c, draw_kernels, drawn, output=output)


def load_kernels(path: str, lines: Sequence[str], c: KernelsConfig) -> list[KernelRows]:
    """The selected kernels of a checkpoint, up to the radius; omitted ones are reported."""
    learner = load_reader(path, c.device)
    text = batch_lines(learner, lines, c.sentences or "")
    kernels, undetermined = extract_kernels(learner.encoder, text)
    if not kernels and not undetermined:
        raise ToolkitError(
            f"toolkit-plot kernels requires a model with kernels, such as composite_bert; {path} "
            f"has none. Draw its attention maps with toolkit-plot attention."
        )
    if undetermined:
        names = " and ".join(undetermined)
        hint = "Pass --sentences FILE"
        if not kernels:
            raise ToolkitError(f"the {names} kernels of {path} depend on the text. {hint}.")
        print(f"{names} kernels depend on the text. {hint} to draw them too.", file=sys.stderr)
    layers = sorted({kernel.layer for kernel in kernels})
    check_selection("layers", c.layers, layers, path)
    heads = max((len(kernel.mean) for kernel in kernels if kernel.by == "head"), default=0)
    check_selection("heads", c.heads, range(1, heads + 1), path)
    return [it.select(c.heads, c.radius) for it in kernels if it.layer in (c.layers or layers)]


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
            now = [torch.full_like(taps[0], len(taps)), taps.sum(0), taps.square().sum(0)]
            before = self.sums or [torch.zeros_like(it) for it in now]
            # aligned at offset 0; longer sentences may have more taps
            pad = nn.functional.pad
            more = (now[0].shape[-1] - before[0].shape[-1]) // 2
            before = [pad(it, (max(0, more), max(0, more))) for it in before]
            now = [pad(it, (max(0, -more), max(0, -more))) for it in now]
            self.sums = [a + b for a, b in zip(before, now, strict=True)]

    def rows(self) -> tuple[Rows, Rows | None]:
        """Mean taps at j - i of each head, and their deviation if they depend on the text."""
        if self.fixed is not None:
            return (self.fixed.flip(-1) if self.of_key else self.fixed).tolist(), None
        count, total, squares = (it.flip(-1) if self.of_key else it for it in self.sums)
        mean = total / count
        return mean.tolist(), (squares / count - mean.square()).clamp(min=0).sqrt().tolist()


@torch.no_grad()
def extract_kernels(
    encoder: EncoderModel, text: Iterable[TextBatch] = ()
) -> tuple[list[KernelRows], list[str]]:
    """All kernels by layer and offset, including those of convolutions; and the names of kernels
    that depend on the text if no token of it was read.

    Works for any architecture made of `Kernel`s and `DepthwiseConvolution`s.
    """
    terms = [module for module in encoder.modules() if isinstance(module, RelativeToKey)]
    of_key = {id(kernel) for term in terms for kernel in term.kernels}
    statistics = {
        path: TapStatistics(of_key=id(module) in of_key)
        for path, module in encoder.named_modules()
        if isinstance(module, Kernel)
    }
    batch: TextBatch

    def record_taps(kernel: TapStatistics) -> Callable[[nn.Module, Any, Tensor], None]:
        return lambda _, args, taps: kernel.update(taps, batch.included)

    hooks = [
        encoder.get_submodule(path).register_forward_hook(record_taps(kernel))
        for path, kernel in statistics.items()
    ]
    with evaluating(encoder, hooks):
        for batch in chain([probe_batch(encoder)], text):
            encoder(batch.inputs)
    names = name_kernels(encoder, statistics)
    kernels, undetermined = convolution_kernels(encoder), dict[str, None]()
    for path, it in statistics.items():
        if it.fixed is None and not it.sums:
            undetermined[names[path]] = None
            continue
        mean, deviation = it.rows()
        offsets = tap_offsets(len(mean[0]))
        rows = KernelRows(layer_number(path), names[path], "head", offsets, mean, deviation)
        kernels.append(rows)
    # of one layer, those by channel last
    by_layer = sorted(kernels, key=lambda kernel: (kernel.layer, kernel.by != "head"))
    return by_layer, list(undetermined)


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
        # QueryKernel -> query, SharedQueryKernel -> shared query
        kind = type(encoder.get_submodule(path)).__name__
        words = re.sub(r"(?<!^)(?=[A-Z])", " ", kind).lower().removesuffix(" kernel")
        groups.setdefault((layer_number(path), words), []).append(path)
    return {
        path: f"{name} {number}" if len(group) > 1 else name
        for (_, name), group in groups.items()
        for number, path in enumerate(group, 1)
    }


def layer_number(path: str) -> int:
    """Layer number, from 1, of a module path."""
    match = re.search(r"(?:^|\.)layers\.(\d+)\.", path)
    return int(match[1]) + 1 if match else 1


def convolution_kernels(encoder: nn.Module) -> list[KernelRows]:
    """Kernels by channel: of the values (depthwise), or of projections."""
    kernels = []
    for path, module in encoder.named_modules():
        if isinstance(module, DepthwiseConvolution):
            taps = module.convolution.weight.detach()[:, 0].double()
            part = re.search(r"\.parts\.(\w+)\.", path)
            name = f"{part[1]} convolution" if part else "depthwise"
            offsets, rows = tap_offsets(taps.shape[-1]), taps.tolist()
            kernels.append(KernelRows(layer_number(path), name, "channel", offsets, rows, None))
    return kernels


def tap_offsets(taps: int) -> list[int]:
    """Offsets of this many taps, from -radius to radius."""
    return list(range(-(taps // 2), taps // 2 + 1))
