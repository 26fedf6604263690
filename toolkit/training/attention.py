"""toolkit-plot attention: who attends to whom in a sentence, drawn and as numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.config.plot import PlotConfig
from toolkit.metrics.map_picture import Map, draw
from toolkit.metrics.output import Output
from toolkit.metrics.pictures import save
from toolkit.metrics.tables import Table
from toolkit.models.attention_maps import attention_maps
from toolkit.models.inputs import Inputs
from toolkit.tasks.task import Learner
from toolkit.training.kernels import refuse_unknown
from toolkit.training.reading import limit, loaded, marked


def attention(c: PlotConfig) -> None:
    """Draw, print and write the maps of one checkpoint for one sentence."""
    with Output(c.json) as output:
        learner = loaded(c.path[0], c.device)
        ids = encoded(learner, c.sentence)
        vocabulary = learner.codec.vocabulary
        symbols = vocabulary.symbols
        maps = wanted(maps_of(learner, ids, c.path[0]), c)
        output.write("sentence", {"checkpoint": c.path[0], "tokens": [symbols[i] for i in ids]})
        for drawn in maps:
            output.write("map", drawn._asdict())
        special = [i in vocabulary.special for i in ids]
        habits(maps, special).print(output.terminal)
        tokens = [vocabulary.readable(symbols[i]) for i in ids]
        save(draw(maps, tokens, c.title or c.sentence), c.picture)
        print(c.picture, file=output.people)


def encoded(learner: Learner, sentence: str) -> list[int]:
    ids = marked(learner, sentence)
    if len(ids) > limit(learner):
        raise ToolkitError(
            f"--sentence must have at most {limit(learner)} tokens for this model, but has "
            f"{len(ids)}. Shorten it."
        )
    return ids


def maps_of(learner: Learner, ids: Sequence[int], path: str) -> list[Float[Tensor, "H S S"]]:
    device = next(learner.encoder.parameters()).device
    found = attention_maps(learner.encoder, Inputs(tokens=torch.tensor([ids], device=device)))
    if not found:
        raise ToolkitError(
            f"a model must show its attention for its maps to be drawn, but that of {path} is "
            f"not made of toolkit.nn.attention.Attention."
        )
    return [layer[0].cpu() for layer in found]


def wanted(found: Sequence[Float[Tensor, "H S S"]], c: PlotConfig) -> list[Map]:
    """The layers and heads that the options name; or for each layer the mean of these heads."""
    refuse_unknown("layers", c.layers, range(1, len(found) + 1), c.path[0])
    refuse_unknown("heads", c.heads, range(1, len(found[0]) + 1), c.path[0])
    maps = []
    for layer in c.layers or range(1, len(found) + 1):
        weights = found[layer - 1]
        heads = c.heads or range(1, len(weights) + 1)
        if c.average_heads:
            mean = weights[[head - 1 for head in heads]].mean(0)
            maps.append(Map(layer, None, mean.tolist()))
        else:
            maps += [Map(layer, head, weights[head - 1].tolist()) for head in heads]
    return maps


def habits(maps: Sequence[Map], special: Sequence[bool]) -> Table:
    """What each head tends to look at, as mean shares of its weights."""
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
                *(f"{share:6.1%}" for share in shares),
                f"{entropy.exp().mean():6.1f}",
            ]
        )
    return Table(
        columns=["layer", "head", "previous", "itself", "next", "special", "tokens"],
        rows=rows,
        caption="share of the attention to the previous token, the same, the next and special "
        "symbols; tokens, exp(entropy): to how many it goes as if evenly",
    )
