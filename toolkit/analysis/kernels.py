"""toolkit-plot kernels: kernels that trained models have learned."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from toolkit.analysis.extract_kernels import TextBatch, extract_kernels
from toolkit.analysis.kernel_table import KernelRows, kernel_table
from toolkit.analysis.plots.kernels import draw_kernels
from toolkit.analysis.plots.labels import parse_labels
from toolkit.analysis.plots.style import plot_style, save_plot
from toolkit.analysis.read_text import batch_lines, load_reader, read_lines
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import KernelsConfig
from toolkit.reporting.json_output import Output
from toolkit.reporting.progress import Progress


def plot_kernels(c: KernelsConfig) -> None:
    """Draw, print and write the kernels of all checkpoints."""
    given = parse_labels(c.labels, c.path)
    lines = read_lines(c.sentences) if c.sentences else []
    with Output(c.json) as output:
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


def with_progress(batches: Sequence[TextBatch], description: str) -> Iterator[TextBatch]:
    """The batches, with a progress bar."""
    total = sum(len(batch.included) for batch in batches)
    with Progress(description, total, "sentences") as progress:
        for batch in batches:
            yield batch
            progress.advance(len(batch.included))


def select_kernels(kernels: Sequence[KernelRows], path: str, c: KernelsConfig) -> list[KernelRows]:
    """The selected layers and heads, up to the radius."""
    layers = sorted({kernel.layer for kernel in kernels})
    check_selection("layers", c.layers, layers, path)
    heads = max((len(kernel.mean) for kernel in kernels if kernel.by == "head"), default=0)
    check_selection("heads", c.heads, range(1, heads + 1), path)
    selected = [kernel.crop(c.radius) for kernel in kernels if kernel.layer in (c.layers or layers)]
    return [kernel.select_heads(c.heads) if c.heads else kernel for kernel in selected]


def check_selection(option: str, selected: Sequence[int], known: Sequence[int], path: str) -> None:
    """Raise unless all selected numbers are known; anything is allowed if none are."""
    unknown = sorted(set(selected) - set(known))
    if unknown and known:
        raise ToolkitError(
            f"{option} of {path} must be between {min(known)} and {max(known)}, but one is "
            f"{unknown[0]}."
        )


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
