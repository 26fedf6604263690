"""toolkit-plot attention: attention maps of a sentence, and attention near the diagonal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from toolkit.analysis.plot_style import (
    Axes,
    Figure,
    new_plot,
    open_plot,
    parse_labels,
    style_colorbar,
    to_words,
    write_plot,
)
from toolkit.analysis.read_text import (
    batch_lines,
    check_selection,
    encode_sentence,
    evaluating,
    load_reader,
    model_device,
    read_lines,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import AttentionConfig
from toolkit.metrics.seeds import summarize
from toolkit.models.interface import Inputs
from toolkit.nn.attention import Attention, AttentionInputs, TwoStreamMaps
from toolkit.nn.ops.mixed_attention import MixedAttention
from toolkit.reporting.console import Output
from toolkit.reporting.runs import short_names
from toolkit.reporting.tables import Cell, Table
from toolkit.tasks.learner import Learner

Analysis = tuple[list[str], list["HeadMap"], list["AttentionLocality"]]
"""Of one model: tokens and maps of the drawn sentence, locality over all sentences."""


def plot_attention(c: AttentionConfig) -> None:
    """Draw the maps of a sentence, and report attention near the diagonal."""
    lines = read_lines(c.sentences) if c.sentences else [c.sentence]
    with open_plot(c) as output:
        models = [analyze_checkpoint(path, lines, c, output) for path in c.path]
        localities = [row for _, _, found in models for row in found]
        for row in localities:
            output.write("concentration", row._asdict())
        if any(row.sentences for row in localities):
            locality_table(localities, several=len(models) > 1).print(output.console)
        (_, first, _), panels = models[0], panels_of(models, c)
        columns = len(panels) if c.draws_means else min(MAX_COLUMNS, len(first))
        if first[0].head is not None:
            columns = len(first) // len({it.layer for it in first})
        title = c.title or c.sentence or lines[0]
        write_plot(c, draw_maps, panels, columns, title, c.draws_means, output=output)


def analyze_checkpoint(
    path: str, lines: Sequence[str], c: AttentionConfig, output: Output
) -> Analysis:
    """Run one model; the numbers of the drawn sentence are reported immediately."""
    learner = load_reader(path, c.device)
    subject = "--sentence" if c.sentence else ""
    ids = encode_sentence(learner, c.sentence or lines[0], subject)
    vocabulary = learner.tokenizer.vocabulary
    symbols = [vocabulary.symbols[i] for i in ids]
    inputs = Inputs(torch.tensor([ids], device=model_device(learner)))
    computed = [layer[0].cpu() for layer in attention_maps(learner.encoder, inputs)]
    if not computed:
        raise ToolkitError(
            f"toolkit-plot attention requires a model made of toolkit.nn.attention.Attention; "
            f"{path} has none."
        )
    maps = select_maps(computed, path, c)
    output.write("sentence", {"checkpoint": path, "tokens": symbols})
    for head_map in maps:
        output.write("map", head_map._asdict())
    if not c.draws_means:
        head_table(maps, [i in vocabulary.special for i in ids]).print(output.console)
    tokens = [vocabulary.display_symbol(symbol) for symbol in symbols]
    return tokens, maps, measure_locality(path, learner, lines, c)


def panels_of(models: Sequence[Analysis], c: AttentionConfig) -> list[MapPanel]:
    """All maps of one model, or the mean maps of several models."""
    if not c.draws_means:
        tokens, maps, _ = models[0]
        return [(it.title, tokens, it.weights) for it in maps]
    names = short_names(c.path) if len(models) > 1 else [""]
    given = parse_labels(c.labels, names)
    panels = list[MapPanel]()
    for name, (tokens, maps, locality) in zip(names, models, strict=True):
        mean = locality[0].mean
        parts = given.get(name, to_words(name)), "" if mean is None else f"C = {mean:.3f}"
        title = ", ".join(part for part in parts if part)
        panels.append((title, tokens, maps[0].weights))
    return panels


def select_maps(
    maps: Sequence[Float[Tensor, "H S S"]], path: str, c: AttentionConfig
) -> list[HeadMap]:
    """The selected layers and heads, or the mean over heads, or over all of them."""
    check_selection("layers", c.layers, range(1, len(maps) + 1), path)
    check_selection("heads", c.heads, range(1, len(maps[0]) + 1), path)
    layers = c.layers or range(1, len(maps) + 1)
    heads = [head - 1 for head in c.heads or range(1, len(maps[0]) + 1)]
    means = [maps[layer - 1][heads].mean(0) for layer in layers]
    if c.draws_means:
        return [HeadMap(None, None, torch.stack(means).mean(0).tolist())]
    if c.mean_heads:
        return [HeadMap(layer, None, m.tolist()) for layer, m in zip(layers, means, strict=True)]
    return [HeadMap(n, head + 1, maps[n - 1][head].tolist()) for n in layers for head in heads]


def head_table(maps: Sequence[HeadMap], special: Sequence[bool]) -> Table:
    """Mean fraction of each head's attention by target."""
    rows: list[list[Cell]] = []
    for head_map in maps:
        weights = torch.tensor(head_map.weights, dtype=torch.float64)
        diagonals = [weights.diagonal(offset).sum() / len(weights) for offset in (-1, 0, 1)]
        to_special = weights[:, torch.tensor(special)].sum(1).mean()
        entropy = -(weights * weights.clamp(min=1e-12).log()).sum(1)
        head = "mean" if head_map.head is None else head_map.head
        fractions = [f"{fraction:.1%}" for fraction in (*diagonals, to_special)]
        rows.append([head_map.layer, head, *fractions, f"{entropy.exp().mean():.1f}"])
    targets = ["previous", "itself", "next", "special", "tokens"]
    return Table(
        columns=["layer", "head", *targets],
        rows=rows,
        right_align=targets,
        caption="fraction of the attention to the previous token, the same, the next and special "
        "symbols; tokens: exp(entropy), the effective number of tokens attended to",
    )


@torch.no_grad()
def attention_maps(
    encoder: nn.Module,
    inputs: Inputs,
    transform: Callable[[Float[Tensor, "B H S T"]], Tensor] = lambda weights: weights,
) -> list[Tensor]:
    """The weights that multiply the values in each layer, without dropout: [B, H, S, T].

    Row i has the weights of query i. `transform` is applied to each layer's map, so that not all
    need to be in memory. The maps of `Attention`s and `TwoStreamMaps` are computed in addition to
    the encoder's forward pass, whose faster path never forms them.
    """
    maps: list[Tensor] = []

    def record_map(attention: Attention) -> Callable[[nn.Module, Any, AttentionInputs], None]:
        return lambda _, args, inputs: maps.append(transform(attention.map(inputs).float()))

    def record_two_streams(_: TwoStreamMaps, args: Any, maps_of_streams: MixedAttention) -> None:
        maps.append(transform(torch.cat(maps_of_streams[1:], 1).float()))

    hooks = []
    for module in encoder.modules():
        if isinstance(module, Attention):
            hooks.append(module.project.register_forward_hook(record_map(module)))
        elif isinstance(module, TwoStreamMaps):
            hooks.append(module.register_forward_hook(record_two_streams))
    with evaluating(encoder, hooks):
        encoder(inputs)
    return maps


MAX_DISTANCE = 4
"""Maximum distance of tokens that count as near."""
BATCH_SIZE = 8  # sentences whose maps are in memory at a time


def concentration(
    weights: Float[Tensor, "B S S"], padding: Bool[Tensor, "B S"] | None = None
) -> Float[Tensor, " B"]:
    """C = sum_{|i-j| <= 4} M_ij / sum_{|i-j| > 4} M_ij (section 6.5) of each sentence.

    Padding is excluded. C is infinite for sentences of five tokens or fewer, in which no two tokens
    are farther apart.
    """
    total = weights.double()
    if padding is not None:
        total = total.masked_fill(padding[:, :, None], 0.0)
    far = total.triu(MAX_DISTANCE + 1).sum((1, 2)) + total.tril(-MAX_DISTANCE - 1).sum((1, 2))
    near = total.tril(MAX_DISTANCE).triu(-MAX_DISTANCE).sum((1, 2))
    return near / far


def uniform_concentration(tokens: int) -> float:
    """C of uniform attention over more than five tokens."""
    near = (2 * MAX_DISTANCE + 1) * tokens - MAX_DISTANCE * (MAX_DISTANCE + 1)
    return near / (tokens * tokens - near)


class AttentionLocality(NamedTuple):
    """C of a layer's mean map over sentences of more than five tokens; None without any."""

    checkpoint: str
    layer: int | None
    """None for the mean over layers."""
    mean: float | None = None
    """Infinite if no attention goes to distant tokens."""
    deviation: float | None = None
    """Over sentences; None for a single one, or if the mean is infinite."""
    near_rate: float | None = None
    """C / (1 + C), the fraction of attention to near tokens."""
    uniform: float | None = None
    """C of uniform attention over the same sentences."""
    sentences: int = 0
    short: int = 0
    """Number of sentences left out because they have no distant tokens."""


def measure_locality(
    path: str, learner: Learner, lines: Sequence[str], c: AttentionConfig
) -> list[AttentionLocality]:
    """Locality of the mean over the selected layers and heads, then of each layer."""
    values: dict[int | None, list[float]] = {None: []}
    uniform: list[float] = []
    heads = [head - 1 for head in c.heads] or slice(None)
    for batch in batch_lines(learner, lines, c.sentences or "the sentence", BATCH_SIZE):
        tokens, padding = batch.inputs.tokens, batch.inputs.padding
        padding = torch.zeros_like(tokens, dtype=torch.bool) if padding is None else padding
        lengths = (~padding).sum(1)
        long = lengths > MAX_DISTANCE + 1
        uniform += [uniform_concentration(tokens) for tokens in lengths[long].tolist()]
        found = attention_maps(learner.encoder, batch.inputs, lambda w: w[:, heads].mean(1))
        maps = dict(enumerate(found, 1))
        layers = {layer: maps[layer] for layer in c.layers or maps}
        mean = torch.stack(list(layers.values())).mean(0)
        for layer, weights in [(None, mean), *layers.items()]:
            values.setdefault(layer, []).extend(concentration(weights, padding)[long].tolist())
    localities = []
    for layer, ratios in values.items():
        locality = AttentionLocality(path, layer, short=len(lines) - len(ratios))
        if ratios:
            summary = summarize(ratios)
            locality = locality._replace(
                mean=summary.mean,
                deviation=summary.deviation if math.isfinite(summary.mean) else None,
                near_rate=summarize([1 - 1 / (1 + ratio) for ratio in ratios]).mean,
                uniform=summarize(uniform).mean,
                sentences=summary.n,
            )
        localities.append(locality)
    return localities


def locality_table(localities: Sequence[AttentionLocality], *, several: bool) -> Table:
    """One row per layer, or per model and layer."""
    rows = [
        [
            *[it.checkpoint] * several,
            "mean" if it.layer is None else str(it.layer),
            it.mean,
            it.deviation,
            None if it.near_rate is None else f"{it.near_rate:.1%}",
            it.uniform,
        ]
        for it in localities
    ]
    first = localities[0]
    left_out = f", {first.short:,} too short" if first.short else ""
    return Table(
        columns=[*["checkpoint"] * several, "layer", "C", "deviation", "near", "uniform"],
        rows=rows,
        shared_precision=("C", "deviation", "uniform"),
        right_align=("deviation", "near"),
        caption=f"C: attention to tokens at most {MAX_DISTANCE} away, divided by that to farther "
        f"ones, mean over {first.sentences:,} sentence{'s' * (first.sentences != 1)}{left_out}; "
        f"near: fraction to tokens at most {MAX_DISTANCE} away; uniform: C of uniform attention",
    )


GAP, TITLE, LABEL = 0.1, 0.24, 0.3  # inches between maps, above one, and for an axis label
BAR_WIDTH, BAR_HEIGHT, BAR_SPACE = 0.13, 2.4, 0.85  # inches; the space includes the numbers
POINTS = 72.0  # per inch
LETTER = 0.62  # width of a letter relative to its height
MAX_COLUMNS = 4  # maps per row if there is one per layer

Weights = Sequence[Sequence[float]]
"""Row i: how much token i attends to each token."""


class HeadMap(NamedTuple):
    """Weights of one head of one layer, or a mean of heads."""

    layer: int | None
    """None: the mean over layers."""
    head: int | None
    """None: the mean over heads."""
    weights: Weights

    @property
    def title(self) -> str:
        if self.layer is None:
            return "mean"
        return f"layer {self.layer}" + ("" if self.head is None else f", head {self.head}")


MapPanel = tuple[str, Sequence[str], Weights]
"""Title, tokens and weights of a map as it is drawn."""


def draw_maps(panels: Sequence[MapPanel], columns: int, title: str, means: bool) -> Figure:
    """Maps of the heads of one model, or `means` with their tokens, on one square-root scale.

    All parts are placed manually: automatic layout of 144 labeled maps takes a minute.
    """
    from matplotlib.colors import PowerNorm

    rows, length = math.ceil(len(panels) / columns), max(len(tokens) for _, tokens, _ in panels)
    per_token, least, most = (0.14, 2.2, 5.0) if means else (0.11, 0.95, 3.2)  # inches of a side
    side = min(most, max(least, per_token * length))
    points = min(8.0, max(3.0, 0.85 * POINTS * side / length))
    letters = max(len(token) for _, tokens, _ in panels for token in tokens)
    labels = points / POINTS * LETTER * letters + 0.1
    margin, step = LABEL + labels, side + GAP + means * labels
    width = margin + columns * step - means * labels + BAR_SPACE
    height = margin + rows * (side + TITLE) + LABEL
    fig = new_plot(width, height, constrained=False)
    vmax = max(weight for _, _, weights in panels for row in weights for weight in row)
    for index, (name, tokens, weights) in enumerate(panels):
        row, column = divmod(index, columns)
        corner = margin + column * step, height - LABEL - (row + 1) * (side + TITLE)
        ax = add_axes(fig, *corner, side, side)
        ax.spines[:].set_color("#bbbbbb")
        norm = PowerNorm(0.5, vmin=0.0, vmax=vmax)
        image = ax.imshow(weights, cmap="Blues", norm=norm, interpolation="nearest")
        ax.set_title(name, **({"pad": 3} if means else {"fontsize": "small", "pad": 2}))
        left, below = means or column == 0, means or index + columns >= len(panels)
        ticks = range(len(tokens))
        ax.tick_params(length=0, pad=1, labelsize=points)
        ax.set_yticks(ticks if left else [], tokens if left else [])
        ax.set_xticks(ticks if below else [], tokens if below else [], rotation=90)
    bar = side if means else min(BAR_HEIGHT, height - margin - LABEL - TITLE)
    middle = margin + side / 2 if means else (height + margin - LABEL) / 2
    scale_axes = add_axes(fig, width - BAR_SPACE + 0.1, middle - bar / 2, BAR_WIDTH, bar)
    scale = fig.colorbar(image, cax=scale_axes)
    scale.set_label("weight, square-root scale")
    style_colorbar(scale)
    center = (width - BAR_SPACE) / 2 if means else (margin + width - BAR_SPACE - GAP) / 2
    label_plot(fig, title, center / width, 0.5 if means else middle / height)
    return fig


def add_axes(fig: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a position in inches."""
    w, h = fig.get_size_inches()
    return fig.add_axes((left / w, bottom / h, width / w, height / h))


def label_plot(fig: Figure, title: str, x: float, y: float) -> None:
    """Label both axes of all maps, centered at (x, y); long titles are shortened."""
    width, height = fig.get_size_inches()
    fig.text(x, 0.12 / height, "token that is attended to", ha="center")
    fig.text(0.17 / width, y, "token that attends", rotation=90, ha="center", va="center")
    letters = max(20, math.floor(width * POINTS / (9 * LETTER)))
    shortened = title if len(title) <= letters else title[: letters - 3] + "..."
    fig.text(0.5, 1 - 0.17 / height, shortened, ha="center", va="center", fontsize="medium")
