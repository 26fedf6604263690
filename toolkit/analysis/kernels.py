"""toolkit-plot kernels: what trained models have learnt about offsets, drawn and as numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from toolkit.analysis.extract_kernels import Text, learnt_kernels
from toolkit.analysis.kernel_table import KernelRows, table
from toolkit.analysis.plots.kernels import draw
from toolkit.analysis.plots.style import save
from toolkit.analysis.read_text import batches, loaded, read_lines
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import PlotConfig
from toolkit.reporting.json_output import Output
from toolkit.reporting.progress import Work


def kernels(c: PlotConfig) -> None:
    """Draw, print and write the kernels of every checkpoint."""
    lines = read_lines(c.sentences) if c.sentences else []
    with Output(c.json) as output:
        found = {path: kernels_of(path, lines, c) for path in c.path}
        for path, learnt in found.items():
            for kernel in learnt:
                output.write("kernel", {"checkpoint": path, **kernel.record()})
            show(path, learnt, output, several=len(found) > 1)
        save(draw({path: chosen(learnt, c) for path, learnt in found.items()}, c.title), c.picture)
        print(c.picture, file=output.people)


def kernels_of(path: str, lines: Sequence[str], c: PlotConfig) -> list[KernelRows]:
    """Those that the options ask for; what is left out is told."""
    learner = loaded(path, c.device)
    text = list(batches(learner, lines))
    learnt = learnt_kernels(learner.encoder, shown(text, f"reading {c.sentences}"))
    if not learnt.kernels and not learnt.unknown:
        raise ToolkitError(
            f"a model must have kernels of the offset for its kernels to be drawn, but that of "
            f"{path} has none. Draw one whose attention has some, such as composite_bert, or its "
            f"maps by toolkit-plot attention."
        )
    if learnt.unknown:
        names = " and ".join(learnt.unknown)
        hint = "Give text by --sentences FILE"
        if not learnt.kernels:
            raise ToolkitError(
                f"the {names} kernels of {path} depend on what is read, so that text must be "
                f"given, but is not. {hint}."
            )
        print(f"{names} kernels depend on what is read. {hint} to see them too.", file=sys.stderr)
    return wanted(learnt.kernels, path, c)


def shown(text: Sequence[Text], what: str) -> Iterator[Text]:
    """The batches, while somebody is told how far they are."""
    with Work(what, sum(len(batch.counted) for batch in text), "sentences") as work:
        for batch in text:
            yield batch
            work.advance(len(batch.counted))


def wanted(found: Sequence[KernelRows], path: str, c: PlotConfig) -> list[KernelRows]:
    """The layers and heads that the options name, up to the radius."""
    known = sorted({kernel.layer for kernel in found})
    refuse_unknown("layers", c.layers, known, path)
    by_head = [kernel for kernel in found if kernel.by == "head"]
    refuse_unknown(
        "heads", c.heads, range(1, max((len(k.mean) for k in by_head), default=0) + 1), path
    )
    kept = [kernel.within(c.radius) for kernel in found if kernel.layer in (c.layers or known)]
    return [kernel.of_heads(c.heads) if c.heads else kernel for kernel in kept]


def refuse_unknown(option: str, asked: Sequence[int], known: Sequence[int], path: str) -> None:
    unknown = sorted(set(asked) - set(known))
    if unknown and known:
        raise ToolkitError(
            f"{option} must name those of {path}, {min(known)} to {max(known)}, but holds "
            f"{unknown[0]}."
        )


def chosen(found: Sequence[KernelRows], c: PlotConfig) -> list[KernelRows]:
    """What is drawn: of kernels by channel the last layer alone, unless layers were named."""
    deepest = max((kernel.layer for kernel in found if kernel.by == "channel"), default=0)
    return [k for k in found if k.by == "head" or c.layers or k.layer == deepest]


def show(path: str, found: Sequence[KernelRows], output: Output, *, several: bool) -> None:
    """The numbers for people."""
    terminal = output.terminal
    if several:
        terminal.print(path, markup=False, highlight=False, soft_wrap=True)
    table(found, terminal.width if terminal.is_terminal else None).print(terminal)
