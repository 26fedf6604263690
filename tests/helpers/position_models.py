"""Small encoders with position terms, and sentences with all kinds of position ids."""

from __future__ import annotations

import dataclasses

import torch

from toolkit import build_model
from toolkit.common.registry import ARCHITECTURES, POSITIONS
from toolkit.models.interface import Inputs

VOCABULARY = 20
SHAPE = {
    **{"layers": 1, "width": 12, "heads": 3, "embedding_width": 6, "feed_forward_width": 8},
    **{"max_positions": 32, "radius": 2, "rope_base": 5.0},
    **{"position_buckets": 4, "max_distance": 10},
}
COMPOSITE = {"fixed", "dynamic", "key_dynamic", "absolute_positions", "depthwise"}
IDS = {
    "in order": [0, 1, 2, 3, 4, 5],
    "permuted": [3, 0, 5, 2, 1, 4],
    "hidden": [0, -1, 2, -1, -1, 5],
    "apart": [4, 31, 0, 1, 19, 5],
    "repeated": [2, 2, 0, 2, 9, 9],
}
LENGTHS = [5, 6, 4, 6, 5]


def build_encoder(arch=None, **options):
    """An encoder in float64 with random weights, and its config.

    A table of positions has a row for hidden ones. Options of composite_bert choose it.
    """
    torch.manual_seed(0)
    name = arch or ("composite_bert_tiny" if COMPOSITE & {*options} else "bert_tiny")
    terms = {*options.get("positions", ARCHITECTURES[name].config.positions)}
    unread = options_of(POSITIONS.builtins) - options_of(terms)
    unread -= {"radius"} if options.get("depthwise") else set()
    shape = {key: value for key, value in SHAPE.items() if key not in unread}
    options = {**shape, **options}
    table = "learned" in options.get("positions", ()) or options.get("absolute_positions", False)
    options.setdefault("hidden_position_embedding", table)
    model = build_model(name, vocabulary_size=VOCABULARY, **options).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model, dataclasses.replace(ARCHITECTURES[name].config, **options)


def options_of(terms):
    """The options that position terms read."""
    return {f.name for term in terms for f in dataclasses.fields(POSITIONS[term].config)}


def make_batch(*kinds):
    """A sentence with position ids of each kind; all kinds by default. Some end with padding."""
    kinds = kinds or tuple(IDS)
    tokens = torch.randint(VOCABULARY, (len(kinds), 6), generator=torch.Generator().manual_seed(1))
    padding = torch.arange(6) >= torch.tensor(LENGTHS[: len(kinds)])[:, None]
    return Inputs(tokens, torch.tensor([IDS[kind] for kind in kinds]), padding=padding)
