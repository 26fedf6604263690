"""Parameters of the architectures of release 0.1.0 keep names and shapes: checkpoints load."""

from __future__ import annotations

import hashlib

import pytest

from toolkit import build_model

STORED = [
    ("bert_tiny", {}, 416_512, "19abe7b08d89"),
    ("bert_tiny", {"hidden_position_embedding": True}, 416_576, "565d8cf1d752"),
    ("composite_bert_tiny", {}, 410_564, "cb0e62c2e1b7"),
    (
        "composite_bert_tiny",
        {"key_dynamic": True, "depthwise": True, "absolute_positions": True},
        425_540,
        "b18f5d36e0fe",
    ),
    (
        "composite_bert_tiny",
        {"fixed": False, "convolve": ["query", "value"]},
        419_712,
        "e7f0f60fa16f",
    ),
    ("convbert_tiny", {}, 428_050, "2be073cf9bd7"),
    ("convbert_tiny", {"conv_type": "dynamic", "share_value": True}, 392_722, "8767db39fcf4"),
    ("taco_tiny", {}, 517_739, "0b202b58cd11"),
    ("conv_san", {}, 1_686_664, "60c6d41a2882"),
    ("transformer_tiny", {}, 1_337_856, "03eb8057ee90"),
    ("transformer_lm_tiny", {}, 403_200, "5c1bed69f5e9"),
    ("transformer_lm_tiny", {"positions": ["sinusoidal", "t5"]}, 403_456, "84ad473c1814"),
    ("transformer_lm_tiny", {"positions": ["sinusoidal", "shaw"]}, 404_288, "68a884be0834"),
    ("transformer_lm_tiny", {"positions": ["sinusoidal", "composite"]}, 404_424, "d78e2eeeaa82"),
    ("lightconv_tiny", {}, 1_206_208, "7e2df3757855"),
    ("dynamicconv_tiny", {}, 1_263_104, "57f77c420f56"),
]
"""Architecture, options, number of parameters, hash of names and shapes of all tensors."""


def describe(name, options):
    """Number of parameters, and a hash of the names and shapes of all tensors."""
    model = build_model(name, sizes={"tokens": 50, "characters": 30}, **options)
    lines = sorted(f"{name} {list(tensor.shape)}" for name, tensor in model.state_dict().items())
    hashed = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
    return sum(parameter.numel() for parameter in model.parameters()), hashed


@pytest.mark.parametrize(("name", "options", "count", "hashed"), STORED)
def test_parameters_of_the_release_keep_names_and_shapes(name, options, count, hashed):
    assert describe(name, options) == (count, hashed)
