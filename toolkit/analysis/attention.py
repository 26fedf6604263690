"""toolkit-plot attention: attention maps of a sentence, and attention near the diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.analysis.attention_distance import AttentionLocality, locality_table, measure_locality
from toolkit.analysis.extract_attention import attention_maps
from toolkit.analysis.kernels import check_selection
from toolkit.analysis.plots.attention import HeadMap, MeanMap, draw_maps, draw_mean_maps
from toolkit.analysis.plots.style import save_figure
from toolkit.analysis.read_text import (
    encode_with_special_tokens,
    load_reader,
    max_length,
    read_lines,
)
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import AttentionConfig
from toolkit.models.interface import Inputs
from toolkit.reporting.json_output import Output
from toolkit.reporting.runs import short_names
from toolkit.reporting.tables import Table
from toolkit.tasks.task import Learner


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
        found = [analyze_checkpoint(path, lines, c, output) for path in c.path]
        near = [row for seen in found for row in seen.locality]
        for row in near:
            output.write("concentration", row._asdict())
        if any(row.sentences for row in near):
            locality_table(near, several=len(found) > 1).print(output.console)
        save_figure(draw_picture(found, c.title or c.sentence or lines[0], c), c.output_file)
        print(c.output_file, file=output.text_stream)


def analyze_checkpoint(
    path: str, lines: Sequence[str], c: AttentionConfig, output: Output
) -> SentenceAttention:
    """Run one model; the numbers of the drawn sentence are reported at once."""
    learner = load_reader(path, c.device)
    ids = (
        encode_sentence(learner, c.sentence)
        if c.sentence
        else encode_with_special_tokens(learner, lines[0])[: max_length(learner)]
    )
    words = learner.tokenizer.vocabulary
    maps = select_maps(compute_maps(learner, ids, path), path, c)
    output.write("sentence", {"checkpoint": path, "tokens": [words.symbols[i] for i in ids]})
    for drawn in maps:
        output.write("map", drawn._asdict())
    if not c.mean:
        head_table(maps, [i in words.special for i in ids]).print(output.console)
    tokens = [words.display_symbol(words.symbols[i]) for i in ids]
    return SentenceAttention(path, tokens, maps, measure_locality(path, learner, lines, c))


def draw_picture(found: Sequence[SentenceAttention], title: str, c: AttentionConfig) -> Any:
    """All maps of one model, or the mean maps of several models."""
    if not c.mean:
        return draw_maps(found[0].maps, found[0].tokens, title)
    names = short_names([seen.path for seen in found]) if len(found) > 1 else [""]
    means = [
        MeanMap(name, seen.tokens, seen.maps[0].weights, seen.locality[0].mean)
        for name, seen in zip(names, found, strict=True)
    ]
    return draw_mean_maps(means, title)


def encode_sentence(learner: Learner, sentence: str) -> list[int]:
    ids = encode_with_special_tokens(learner, sentence)
    if len(ids) > max_length(learner):
        raise ToolkitError(
            f"--sentence must have at most {max_length(learner)} tokens for this model, but has "
            f"{len(ids)}. Shorten it."
        )
    return ids


def compute_maps(learner: Learner, ids: Sequence[int], path: str) -> list[Float[Tensor, "H S S"]]:
    device = next(learner.encoder.parameters()).device
    found = attention_maps(learner.encoder, Inputs(tokens=torch.tensor([ids], device=device)))
    if not found:
        raise ToolkitError(
            f"toolkit-plot attention requires a model made of toolkit.nn.attention.Attention; "
            f"{path} has none."
        )
    return [layer[0].cpu() for layer in found]


def select_maps(
    found: Sequence[Float[Tensor, "H S S"]], path: str, c: AttentionConfig
) -> list[HeadMap]:
    """The selected layers and heads, or the mean over heads, or over all of them."""
    check_selection("layers", c.layers, range(1, len(found) + 1), path)
    check_selection("heads", c.heads, range(1, len(found[0]) + 1), path)
    layers = c.layers or range(1, len(found) + 1)
    heads = [head - 1 for head in c.heads or range(1, len(found[0]) + 1)]
    means = [found[layer - 1][heads].mean(0) for layer in layers]
    if c.mean:
        return [HeadMap(None, None, torch.stack(means).mean(0).tolist())]
    if c.mean_heads:
        return [HeadMap(layer, None, m.tolist()) for layer, m in zip(layers, means, strict=True)]
    return [HeadMap(n, head + 1, found[n - 1][head].tolist()) for n in layers for head in heads]


def head_table(maps: Sequence[HeadMap], special: Sequence[bool]) -> Table:
    """Mean share of each head's attention by target."""
    rows = []
    for drawn in maps:
        weights = torch.tensor(drawn.weights, dtype=torch.float64)
        length = len(weights)
        before, after = (weights.diagonal(o).sum().item() / length for o in (-1, 1))
        symbols = weights[:, torch.tensor(special)].sum(1).mean().item()
        entropy = -(weights * weights.clamp(min=1e-12).log()).sum(1)
        shares = [before, weights.diagonal().mean().item(), after, symbols]
        who = "mean" if drawn.head is None else drawn.head
        rows.append(
            [
                drawn.layer,
                who,
                *(f"{share:.1%}" for share in shares),
                f"{entropy.exp().mean():.1f}",
            ]
        )
    named = ["previous", "itself", "next", "special", "tokens"]
    return Table(
        columns=["layer", "head", *named],
        rows=rows,
        right_align=named,
        caption="share of the attention to the previous token, the same, the next and special "
        "symbols; tokens, exp(entropy): to how many it goes as if evenly",
    )
