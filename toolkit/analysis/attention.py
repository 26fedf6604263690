"""toolkit-plot attention: attention maps of a sentence, and attention near the diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.analysis.attention_distance import AttentionLocality, locality_table, measure_locality
from toolkit.analysis.extract_attention import attention_maps
from toolkit.analysis.kernels import check_selection
from toolkit.analysis.plots.attention import HeadMap, MeanMap, draw_maps, draw_mean_maps
from toolkit.analysis.plots.labels import parse_labels, to_words
from toolkit.analysis.plots.style import Figure, plot_style, save_plot
from toolkit.analysis.read_text import (
    encode_whole_sentence,
    encode_with_special_tokens,
    load_reader,
    model_device,
    read_lines,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import AttentionConfig
from toolkit.models.interface import Inputs
from toolkit.reporting.json_output import Output
from toolkit.reporting.runs import short_names
from toolkit.reporting.tables import Cell, Table
from toolkit.tasks.learner import Learner


class SentenceAttention(NamedTuple):
    """Attention of one model: maps of the drawn sentence, locality over all sentences."""

    path: str
    tokens: Sequence[str]
    maps: Sequence[HeadMap]
    locality: Sequence[AttentionLocality]


def plot_attention(c: AttentionConfig) -> None:
    """Draw the maps of a sentence, and report attention near the diagonal."""
    lines = read_lines(c.sentences) if c.sentences else [c.sentence]
    with Output(c.json) as output:
        models = [analyze_checkpoint(path, lines, c, output) for path in c.path]
        localities = [row for model in models for row in model.locality]
        for row in localities:
            output.write("concentration", row._asdict())
        if any(row.sentences for row in localities):
            locality_table(localities, several=len(models) > 1).print(output.console)
        with plot_style(c):
            save_plot(draw_sentence(models, c.title or c.sentence or lines[0], c), c)
        print(c.output_file, file=output.text_stream)


def analyze_checkpoint(
    path: str, lines: Sequence[str], c: AttentionConfig, output: Output
) -> SentenceAttention:
    """Run one model; the numbers of the drawn sentence are reported immediately."""
    learner = load_reader(path, c.device)
    if c.sentence:
        ids = encode_whole_sentence(learner, c.sentence, "--sentence")
    else:
        ids = encode_with_special_tokens(learner, lines[0])
    vocabulary = learner.tokenizer.vocabulary
    symbols = [vocabulary.symbols[i] for i in ids]
    maps = select_maps(compute_maps(learner, ids, path), path, c)
    output.write("sentence", {"checkpoint": path, "tokens": symbols})
    for head_map in maps:
        output.write("map", head_map._asdict())
    if not c.mean:
        head_table(maps, [i in vocabulary.special for i in ids]).print(output.console)
    tokens = [vocabulary.display_symbol(symbol) for symbol in symbols]
    return SentenceAttention(path, tokens, maps, measure_locality(path, learner, lines, c))


def draw_sentence(models: Sequence[SentenceAttention], title: str, c: AttentionConfig) -> Figure:
    """All maps of one model, or the mean maps of several models."""
    if not c.mean:
        return draw_maps(models[0].maps, models[0].tokens, title)
    names = short_names([model.path for model in models]) if len(models) > 1 else [""]
    given = parse_labels(c.labels, names)
    means = [
        MeanMap(
            given.get(name, to_words(name)),
            model.tokens,
            model.maps[0].weights,
            model.locality[0].mean,
        )
        for name, model in zip(names, models, strict=True)
    ]
    return draw_mean_maps(means, title)


def compute_maps(learner: Learner, ids: Sequence[int], path: str) -> list[Float[Tensor, "H S S"]]:
    """The maps of all layers."""
    tokens = torch.tensor([ids], device=model_device(learner))
    maps = attention_maps(learner.encoder, Inputs(tokens))
    if not maps:
        raise ToolkitError(
            f"toolkit-plot attention requires a model made of toolkit.nn.attention.Attention; "
            f"{path} has none."
        )
    return [layer[0].cpu() for layer in maps]


def select_maps(
    maps: Sequence[Float[Tensor, "H S S"]], path: str, c: AttentionConfig
) -> list[HeadMap]:
    """The selected layers and heads, or the mean over heads, or over all of them."""
    check_selection("layers", c.layers, range(1, len(maps) + 1), path)
    check_selection("heads", c.heads, range(1, len(maps[0]) + 1), path)
    layers = c.layers or range(1, len(maps) + 1)
    heads = [head - 1 for head in c.heads or range(1, len(maps[0]) + 1)]
    means = [maps[layer - 1][heads].mean(0) for layer in layers]
    if c.mean:
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
