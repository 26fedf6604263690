"""ConvBERT: published sizes, comparison with Hugging Face's, and rejected configs."""

from __future__ import annotations

import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.models.convbert import ConvBertConfig
from toolkit.models.interface import Inputs

WORDS = 30_522
BOTTLENECK = {"conv_type": "none"}
GENERATORS = {
    "convbert_small": {"width": 64, "heads": 1, "feed_forward_width": 256},
    "convbert_medium_small": {"width": 96, "heads": 2, "feed_forward_width": 384},
    "convbert": {"width": 256, "heads": 4, "feed_forward_width": 1024, "embedding_width": 768},
}
ROWS = [
    ("convbert_small", {"conv_type": "none", "head_ratio": 1}, "13.48", "13.55", "14.20"),
    ("convbert_small", BOTTLENECK, "11.91", "11.97", "12.62"),
    ("convbert_small", {}, "13.14", "13.21", "14.02"),
    (
        "convbert_medium_small",
        {"conv_type": "none", "head_ratio": 1, "groups": 1},
        "25.32",
        "25.46",
        "26.86",
    ),
    ("convbert_medium_small", BOTTLENECK | {"groups": 1}, "21.77", "21.92", "23.09"),
    ("convbert_medium_small", BOTTLENECK, "14.69", "14.84", "15.57"),
    ("convbert_medium_small", BOTTLENECK | {"width": 432}, "17.53", "17.71", "18.63"),
    ("convbert_medium_small", {}, "17.48", "17.62", "18.54"),
    ("convbert", {"conv_type": "none", "head_ratio": 1}, "108.89", "109.48", "119.39"),
    ("convbert", BOTTLENECK, "94.72", "95.31", "103.64"),
    ("convbert", {}, "105.68", "106.27", "115.84"),
]


def size(name, words=WORDS, **changes):
    with torch.device("meta"):
        model = build_model(name, vocabulary_size=words, **changes)
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("convbert_small", 13_143_768),
        ("convbert_medium_small", 17_475_888),
        ("convbert", 105_680_520),
    ],
)
def test_convbert_has_the_parameters_of_hugging_faces(name, published):
    assert size(name) == published


def test_convbert_small_chang_has_the_published_number_of_parameters():
    assert size("convbert_small_chang", 30_004, task="mlm") == 13_094_540


def millions(count):
    return f"{count / 1e6:.2f}"


@pytest.mark.parametrize(("name", "changes", "trunk", "with_head", "with_generator"), ROWS)
def test_rows_of_table_1_have_their_sizes_by_three_conventions(
    name, changes, trunk, with_head, with_generator
):
    width = changes.get("width", {"convbert_small": 256, "convbert": 768}.get(name, 384))
    encoder = size(name, **changes)
    head = width * width + width + width + 1
    smaller = GENERATORS[name] | ({"width": 108, "feed_forward_width": 432} if width == 432 else {})
    table = 128 if name != "convbert" else 768
    shared = (WORDS + 512 + 2) * table + 2 * table  # the tables and their norm
    inner = smaller["width"]
    generator = size(name, **{**changes, **smaller}) - shared
    generator_head = inner * table + table + 2 * table + WORDS
    assert millions(encoder) == trunk
    assert millions(encoder + head) == with_head
    assert millions(encoder + head + generator + generator_head) == with_generator


def build_hugging_face(groups):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.ConvBertConfig(
        vocab_size=60,
        hidden_size=32,
        embedding_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        num_groups=groups,
        max_position_embeddings=40,
    )
    model = transformers.ConvBertModel(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def convert_layer(tensors, layer):
    """The tensors of a Hugging Face layer by the names of the toolkit."""
    own, read = "attention.self.", lambda name: tensors[f"encoder.layer.{layer}.{name}"]
    pairs = {
        "attention.project.qkv": [
            torch.cat([read(f"{own}{part}.{what}") for part in PARTS]) for what in WHAT
        ],
        f"{KERNEL}.span.pointwise": [
            read(f"{own}key_conv_attn_layer.pointwise.weight").squeeze(-1),
            read(f"{own}key_conv_attn_layer.bias").squeeze(-1),
        ],
    }
    for name, other in NAMES.items():
        pairs[name] = [read(f"{other}.{what}") for what in WHAT]
    converted = {
        f"layers.{layer}.{name}.{what}": tensor
        for name, pair in pairs.items()
        for what, tensor in zip(WHAT, pair, strict=True)
    }
    depthwise = read(f"{own}key_conv_attn_layer.depthwise.weight")
    return converted | {f"layers.{layer}.{KERNEL}.span.depthwise.convolution.weight": depthwise}


KERNEL, WHAT = "attention.values.convolution.kernel", ("weight", "bias")
PARTS = ("query", "key", "value", "conv_out_layer")
NAMES = {
    f"{KERNEL}.generate": "attention.self.conv_kernel_layer",
    "attention.output": "attention.output.dense",
    "after_attention.norm": "attention.output.LayerNorm",
    "feed_forward.wide": "intermediate.dense",
    "feed_forward.back": "output.dense",
    "after_feed_forward.norm": "output.LayerNorm",
}


def convert_embeddings(tensors):
    names = {"words": "word", "positions": "position", "types": "token_type"}
    converted = {
        f"embeddings.{name}.weight": tensors[f"embeddings.{hf_name}_embeddings.weight"]
        for name, hf_name in names.items()
    }
    for what in WHAT:
        converted[f"embeddings.norm.{what}"] = tensors[f"embeddings.LayerNorm.{what}"]
        converted[f"embeddings.widen.{what}"] = tensors[f"embeddings_project.{what}"]
    return converted


def build(groups, **changes):
    return build_model(
        "convbert",
        vocabulary_size=60,
        **{"layers": 2, "width": 32, "heads": 4, "embedding_width": 16, "feed_forward_width": 64},
        groups=groups,
        max_positions=40,
        convolve_padding=True,
        **changes,
    ).eval()


@pytest.mark.parametrize("groups", [1, 2])
def test_convbert_states_equal_hugging_faces(groups):
    hf, model = build_hugging_face(groups), build(groups)
    tensors = hf.state_dict()
    layers = [convert_layer(tensors, layer) for layer in range(2)]
    model.load_state_dict(convert_embeddings(tensors) | layers[0] | layers[1])
    tokens, segments = torch.randint(0, 60, (3, 37)), torch.randint(0, 2, (3, 37))
    padding = torch.arange(37) >= torch.tensor([37, 20, 33])[:, None]
    with torch.no_grad():
        expected = hf(tokens, attention_mask=(~padding).long(), token_type_ids=segments)[0]
        states = model(Inputs(tokens, segments=segments, padding=padding)).states
    torch.testing.assert_close(states[~padding], expected[~padding], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["span", "dynamic", "conventional", "none"])
def test_convbert_states_do_not_depend_on_padding_or_the_batch(kind):
    model = build_model("convbert_tiny", vocabulary_size=50, conv_type=kind).eval()
    tokens = torch.randint(0, 50, (2, 37))
    padding = torch.arange(37) >= torch.tensor([37, 20])[:, None]
    in_batch = model(Inputs(tokens, padding=padding)).states[1, :20]
    alone = model(Inputs(tokens[1:, :20])).states[0]
    torch.testing.assert_close(in_batch, alone, atol=1e-5, rtol=0)


def test_convbert_takes_positions_without_convolutions_only():
    assert build_model("convbert_tiny", vocabulary_size=9, conv_type="none").takes_positions
    for kind in ("span", "dynamic", "conventional"):
        with pytest.raises(ToolkitError, match="sees positions only through position ids"):
            build_model(
                "convbert_tiny",
                vocabulary_size=9,
                task="mpm",
                conv_type=kind,
                hidden_position_embedding=True,
            )


def test_depthwise_convolutions_start_from_a_truncated_normal_or_torchs_default():
    taps = [
        layer.attention.values.convolution.kernel.span.depthwise.convolution.weight
        for name in ("convbert_small", "convbert_small_chang")
        for layer in build_model(name, vocabulary_size=9, layers=1).layers
    ]
    assert 0.9 * 2 / 9 < taps[0].abs().max() <= 2 / 9
    assert taps[0].std().item() == pytest.approx(
        0.88 / 9, rel=0.05
    )  # 12 % less than 1 / 9 by truncation
    assert 0.9 / 3 < taps[1].abs().max() <= 1 / 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": 3, "width": 12}, "arch.heads must be a multiple of arch.head_ratio, but 3 = 1"),
        ({"heads": 5}, "arch.width must be a multiple of arch.heads, but 8 = 1 x 5 \\+ 3"),
        ({"kernel_size": 8}, "arch.kernel_size must be odd, but is 8. Choose 7 or 9"),
        ({"groups": 3}, "arch.width must be a multiple of arch.groups, but 8 = 2 x 3 \\+ 2"),
        (
            {"groups": 2, "feed_forward_width": 9},
            "arch.feed_forward_width must be a multiple of arch.groups, but 9 = 4 x 2 \\+ 1",
        ),
    ],
)
def test_convbert_rejects_impossible_configs(changes, message):
    with pytest.raises(ToolkitError, match=message):
        ConvBertConfig(**{"width": 8, "heads": 2, **changes})
