"""toolkit-plot kernels: kernels that trained models have learned."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from toolkit.analysis.extract_kernels import TextBatch, extract_kernels
from toolkit.analysis.kernel_table import KernelRows, kernel_table
from toolkit.analysis.plots.kernels import draw_kernels
from toolkit.analysis.plots.style import save_figure
from toolkit.analysis.read_text import batch_lines, load_reader, read_lines
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import KernelsConfig
from toolkit.reporting.json_output import Output
from toolkit.reporting.progress import Progress


def plot_kernels(c: KernelsConfig) -> None:
    """Draw, print and write the kernels of all checkpoints."""
    lines = read_lines(c.sentences) if c.sentences else []
    with Output(c.json) as output:
        found = {path: load_kernels(path, lines, c) for path in c.path}
        for path, learned in found.items():
            for kernel in learned:
                output.write("kernel", {"checkpoint": path, **kernel.to_record()})
            print_table(path, learned, output, several=len(found) > 1)
        save_figure(
            draw_kernels(
                {path: kernels_to_draw(learned, c) for path, learned in found.items()}, c.title
            ),
            c.output_file,
        )
        print(c.output_file, file=output.text_stream)


def load_kernels(path: str, lines: Sequence[str], c: KernelsConfig) -> list[KernelRows]:
    """The selected kernels of a checkpoint; omitted ones are reported."""
    learner = load_reader(path, c.device)
    text = list(batch_lines(learner, lines))
    learned = extract_kernels(learner.encoder, with_progress(text, f"reading {c.sentences}"))
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


def with_progress(text: Sequence[TextBatch], what: str) -> Iterator[TextBatch]:
    """The batches, with a progress bar."""
    with Progress(what, sum(len(batch.included) for batch in text), "sentences") as work:
        for batch in text:
            yield batch
            work.advance(len(batch.included))


def select_kernels(found: Sequence[KernelRows], path: str, c: KernelsConfig) -> list[KernelRows]:
    """The selected layers and heads, up to the radius."""
    known = sorted({kernel.layer for kernel in found})
    check_selection("layers", c.layers, known, path)
    by_head = [kernel for kernel in found if kernel.by == "head"]
    check_selection(
        "heads", c.heads, range(1, max((len(k.mean) for k in by_head), default=0) + 1), path
    )
    kept = [kernel.crop(c.radius) for kernel in found if kernel.layer in (c.layers or known)]
    return [kernel.select_heads(c.heads) if c.heads else kernel for kernel in kept]


def check_selection(option: str, asked: Sequence[int], known: Sequence[int], path: str) -> None:
    unknown = sorted(set(asked) - set(known))
    if unknown and known:
        raise ToolkitError(
            f"{option} of {path} must be between {min(known)} and {max(known)}, but one is "
            f"{unknown[0]}."
        )


def kernels_to_draw(found: Sequence[KernelRows], c: KernelsConfig) -> list[KernelRows]:
    """The kernels to draw: by channel only the last layer, unless layers are selected."""
    deepest = max((kernel.layer for kernel in found if kernel.by == "channel"), default=0)
    return [k for k in found if k.by == "head" or c.layers or k.layer == deepest]


def print_table(path: str, found: Sequence[KernelRows], output: Output, *, several: bool) -> None:
    """Print the numbers of one checkpoint."""
    terminal = output.console
    if several:
        terminal.print(path, markup=False, highlight=False, soft_wrap=True)
    kernel_table(found, terminal.width if terminal.is_terminal else None).print(terminal)
