"""Plots drawn again from the JSON lines of toolkit-plot."""

from __future__ import annotations

import runpy
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from run_records import read_lines

from toolkit.analysis.attention import HeadMap, draw_maps
from toolkit.analysis.kernels_plot import KernelRows, draw_kernels
from toolkit.analysis.minimal_pairs import GroupAccuracy, draw_panels
from toolkit.analysis.perturbation import VectorDifference, draw_differences
from toolkit.analysis.plot_style import COLORS, Figure, hide_box, new_plot, to_words, write_plot
from toolkit.config.commands.plot import KernelsConfig, PairPlotConfig
from toolkit.data.tokenizers.vocabulary import Vocabulary

ROOT = Path(__file__).resolve().parents[1]
TACO = {
    "taco_192": "TACO",
    "taco_192_summed": "TACO without its convolution",
    "taco_192_words": "TACO, masked words only",
    "bert_192": "BERT",
}
PUBLISHED = {"ngram": "5-gram", "lstm": "LSTM", "txl": "Transformer-XL", "gpt2": "GPT-2"}
SENTENCES = {
    "attention": "The old man opened the [MASK] and looked out into the night.",
    "mean_attention": "He said the foodservice pie business doesn't fit the company's "
    "long-term growth strategy.",
}
Events = Sequence[dict[str, Any]]


def draw_from_json(source: str, draw: Callable[[Events], Figure], file: Path) -> None:
    """Draw the events of a file that toolkit-plot --json wrote, a path in the repository."""
    c = KernelsConfig(path=["recorded"], output=str(file))  # its options for style
    write_plot(c, draw, read_lines(ROOT / source))


def kernels(events: Events) -> Figure:
    """The learned kernels of a checkpoint."""
    rows = [
        KernelRows(it["layer"], it["kernel"], it["by"], it["offsets"], it["mean"], it["deviation"])
        for it in events
    ]
    deepest = max(row.layer for row in rows)
    return draw_kernels({"": [it for it in rows if it.by == "head" or it.layer == deepest]})


def attention(events: Events) -> Figure:
    """The attention maps of a sentence."""
    [sentence] = [it for it in events if it["event"] == "sentence"]
    maps, tokens = read_maps(events), display(sentence["tokens"])
    columns = len({it.head for it in maps})
    panels = [(it.title, tokens, it.weights) for it in maps]
    return draw_maps(panels, columns, SENTENCES["attention"], False)


def mean_attention(events: Events) -> Figure:
    """The mean attention maps of several checkpoints."""
    tokens = [display(it["tokens"]) for it in events if it["event"] == "sentence"]
    means = [it for it in events if it["event"] == "concentration" and it["layer"] is None]
    panels = [
        (f"{Path(it['checkpoint']).name}, C = {it['mean']:.3f}", row, head_map.weights)
        for it, row, head_map in zip(means, tokens, read_maps(events), strict=True)
    ]
    return draw_maps(panels, len(panels), SENTENCES["mean_attention"], True)


def minimal_pairs(events: Events) -> Figure:
    """Accuracies on minimal pairs of several models."""
    panels: dict[str, dict[str, GroupAccuracy]] = defaultdict(dict)
    for it in events:
        if it["event"] == "accuracy":
            found = GroupAccuracy(it["mean"], it["standard_error"], it["seeds"])
            panels[it["group"]][it["model"]] = found
    names = {*panels, *panels["overall"]}
    labels = {name: PUBLISHED.get(name, to_words(name)) for name in names}
    return draw_panels(panels, labels, PairPlotConfig(files=["recorded"]))


def read_maps(events: Events) -> list[HeadMap]:
    """The weights of each head, or of the mean."""
    return [
        HeadMap(it["layer"], it["head"], it["weights"]) for it in events if it["event"] == "map"
    ]


def display(symbols: Sequence[str]) -> list[str]:
    """Tokens as plots show them."""
    vocabulary = Vocabulary(symbols, pad=0, cls=0, sep=0, mask=0, unk=0)
    return [vocabulary.display_symbol(symbol) for symbol in symbols]


def perturbation(events: Events) -> Figure:
    """Differences between the vectors of a word in two sentences."""
    differences = [
        VectorDifference(
            TACO[Path(it["checkpoint"]).name],
            (it["sentences"][0], it["sentences"][1]),
            it["word"],
            it["distance"],
            it["angle"],
        )
        for it in events
    ]
    return draw_differences(differences)


Panels = dict[str, dict[str, Sequence[float]]]


def ranges(panels: Panels) -> Figure:
    """A panel for each title, with rows of a lowest, a middle and a highest accuracy in percent."""
    fig = new_plot(3.6 * len(panels), 0.24 * max(map(len, panels.values())) + 1.0)
    for ax, (title, rows) in zip(
        fig.subplots(1, len(panels), sharex=True), panels.items(), strict=True
    ):
        for place, (low, middle, high) in enumerate(rows.values()):
            ax.plot([low, high], [place, place], color=COLORS[4], linewidth=3)
            ax.plot(middle, place, marker="o", color=COLORS[2], markersize=4)
            ax.plot(high, place, marker="|", color=COLORS[3], markersize=9)
        ax.axvline(50, color="grey", linewidth=0.6, linestyle=(0, (3, 3)))
        ax.set_yticks(range(len(rows)), [*rows])
        ax.invert_yaxis()
        ax.set_title(title)
        hide_box(ax)
    fig.supxlabel("accuracy (%): ties wrong to right; dot: one half; red: right")
    return fig


def tie_ranges(source: Path, file: Path) -> None:
    """Accuracies without positions by rule, and by encoder after short and after long runs."""
    ties = runpy.run_path(str(ROOT / "tools/tables/ties.py"))
    built = dict(ties["tables"]([], source))
    shares = (3, 1, 2)  # columns of ties as wrong, one half and right
    panels: Panels = {}
    for title, key, before in (
        ("no positions, by what counts as a tie", "rules", 0),
        ("after 500 updates, by positions", "encoders", 2),
        ("after 10,500 updates, by positions", "trained", 1),
    ):
        numbers = {
            row[0]: [float(row[before + it].split()[0]) for it in shares] for row in built[key][1:]
        }
        panels[title] = numbers
    c = KernelsConfig(path=["recorded"], output=str(file))  # its options for style
    write_plot(c, ranges, panels)


def differences(source: Path, file: Path) -> None:
    """Differences of variants from the base: a dot for each seed, the mean with its interval."""
    tables = runpy.run_path(str(ROOT / "tools/tables/babylm.py"))
    losses = tables["masked_losses"](source)
    found, base = tables["differences"](losses), losses[tables["BASE"]]

    def draw(names: Sequence[str]) -> Figure:
        fig = new_plot(6.0, 0.3 * len(names) + 0.8)
        ax = fig.subplots()
        for place, name in enumerate(names):
            seeds = [loss - base[seed] for seed, loss in losses[name].items() if seed in base]
            ax.plot(seeds, [place] * len(seeds), "o", color=COLORS[4], markersize=3)
            if found[name].low is not None:
                ax.plot([found[name].low, found[name].high], [place, place], color=COLORS[2])
            ax.plot(found[name].mean, place, "o", color=COLORS[2], markersize=5)
        ax.axvline(0, color="grey", linewidth=0.6, linestyle=(0, (3, 3)))
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlabel("masked loss minus that of the base of the same seed")
        hide_box(ax)
        return fig

    write_plot(KernelsConfig(path=["recorded"], output=str(file)), draw, [*found])
