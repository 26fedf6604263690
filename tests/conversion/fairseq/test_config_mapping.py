from pathlib import Path

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.conversion.fairseq.config_mapping import (
    arch_options,
    read_settings,
    setting_mismatches,
    unwrap,
)
from toolkit.conversion.torch_file import OpaqueObject

SIZES = {
    "encoder_layers": 2,
    "encoder_embed_dim": 8,
    "encoder_attention_heads": 4,
    "encoder_ffn_embed_dim": 16,
}


def inert(**state):
    made = OpaqueObject()
    made.__setstate__(state)
    return made


def test_settings_of_argparse_and_omegaconf_are_unwrapped():
    node = inert(_val=3, _metadata=inert(key="a"))
    found = inert(_content={"model": inert(_content={"a": node, "b": inert(_val=None)})})
    assert read_settings({"cfg": found}, Path("x")) == {"a": 3, "b": None}
    assert unwrap(inert(a=1)) == {"a": 1} and unwrap([1]) == [1] and unwrap(inert()) == {}


def test_settings_in_themselves_and_shared_ones_are_not_expanded():
    whole, shared = inert(), []
    for _ in range(100):
        shared = [shared, shared]
    whole.__setstate__({"encoder_layers": whole, "activation_fn": shared, "dropout": 0.5})
    settings = read_settings({"args": whole}, Path("x"))
    expected = {"encoder_layers": "dict", "activation_fn": "list", "dropout": 0.5}
    assert settings == expected
    assert {problem.found for problem in setting_mismatches(settings)} >= {"dict", "list"}


def test_read_settings_finds_them_under_cfg_or_args():
    assert read_settings({"cfg": {"model": inert(a=1)}, "args": inert(a=2)}, Path("x")) == {"a": 1}
    assert read_settings({"cfg": None, "args": inert(a=2)}, Path("x")) == {"a": 2}
    for other in ({}, {"args": 3}, {"cfg": {"model": {}}}):
        with pytest.raises(
            ToolkitError, match=r"must contain the model's settings under args or cfg"
        ):
            read_settings(other, Path("x"))


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"activation_fn": "relu"}, "activation_fn"),
        ({"encoder_normalize_before": True}, "encoder_normalize_before"),
        ({"no_scale_embedding": False}, "no_scale_embedding"),
        ({"encoder_layers": None}, "encoder_layers"),
        ({"encoder_layers": 10**6}, "encoder_layers"),
        ({"encoder_attention_heads": "4"}, "encoder_attention_heads"),
        ({"encoder_embed_dim": True}, "encoder_embed_dim"),
    ],
)
def test_unsupported_settings_are_mismatches(change, name):
    assert setting_mismatches(SIZES) == []
    assert [problem.where for problem in setting_mismatches({**SIZES, **change})] == [name]


def test_arch_options_are_those_of_bert():
    found = arch_options({**SIZES, "dropout": 0, "attention_dropout": 0.2, "arch": "roberta"}, 512)
    assert found == {
        **{"layers": 2, "width": 8, "heads": 4, "feed_forward_width": 16, "max_positions": 512},
        **{"dropout": 0.0, "attention_dropout": 0.2, "token_types": 1, "norm_epsilon": 1e-5},
    }
