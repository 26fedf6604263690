"""ConvBERT: published sizes, Hugging Face's outputs from the same weights, and what is refused."""

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
def test_the_trunk_has_as_many_parameters_as_hugging_faces(name, published):
    assert size(name) == published


def test_changs_convbert_has_its_published_number_of_parameters():
    assert size("convbert_small_chang", 30_004, task="mlm") == 13_094_540


def millions(count):
    return f"{count / 1e6:.2f}"


@pytest.mark.parametrize(("name", "changes", "trunk", "with_head", "with_generator"), ROWS)
def test_the_rows_of_table_1_have_their_sizes_by_three_conventions(
    name, changes, trunk, with_head, with_generator
):
    width = changes.get("width", {"convbert_small": 256, "convbert": 768}.get(name, 384))
    encoder = size(name, **changes)
    head = width * width + width + width + 1
    smaller = GENERATORS[name] | ({"width": 108, "feed_forward_width": 432} if width == 432 else {})
    table = 128 if name != "convbert" else 768
    shared = (WORDS + 512 + 2) * table + 2 * table  # all tables and their norm are the same
    inner = smaller["width"]
    generator = size(name, **{**changes, **smaller}) - shared
    of_generator = inner * table + table + 2 * table + WORDS
    assert millions(encoder) == trunk
    assert millions(encoder + head) == with_head
    assert millions(encoder + head + generator + of_generator) == with_generator


def hugging_face(groups):
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


def of_one_layer(theirs, layer):
    """The names of ours, of a layer of theirs."""
    own, read = "attention.self.", lambda name: theirs[f"encoder.layer.{layer}.{name}"]
    found = {
        "attention.project.qkv": [
            torch.cat([read(f"{own}{part}.{what}") for part in PARTS]) for what in WHAT
        ],
        f"{KERNEL}.span.pointwise": [
            read(f"{own}key_conv_attn_layer.pointwise.weight").squeeze(-1),
            read(f"{own}key_conv_attn_layer.bias").squeeze(-1),
        ],
    }
    for name, other in NAMES.items():
        found[name] = [read(f"{other}.{what}") for what in WHAT]
    both = {
        f"layers.{layer}.{name}.{what}": tensor
        for name, tensors in found.items()
        for what, tensor in zip(WHAT, tensors, strict=True)
    }
    depthwise = read(f"{own}key_conv_attn_layer.depthwise.weight")
    return both | {f"layers.{layer}.{KERNEL}.span.depthwise.convolution.weight": depthwise}


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


def of_embeddings(theirs):
    names = {"words": "word", "positions": "position", "types": "token_type"}
    found = {
        f"embeddings.{ours}.weight": theirs[f"embeddings.{name}_embeddings.weight"]
        for ours, name in names.items()
    }
    for what in WHAT:
        found[f"embeddings.norm.{what}"] = theirs[f"embeddings.LayerNorm.{what}"]
        found[f"embeddings.widen.{what}"] = theirs[f"embeddings_project.{what}"]
    return found


def ours(groups, **changes):
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
def test_states_equal_hugging_faces_with_the_same_weights_and_padding(groups):
    theirs, model = hugging_face(groups), ours(groups)
    tensors = theirs.state_dict()
    layers = [of_one_layer(tensors, layer) for layer in range(2)]
    model.load_state_dict(of_embeddings(tensors) | layers[0] | layers[1])
    tokens, segments = torch.randint(0, 60, (3, 37)), torch.randint(0, 2, (3, 37))
    padding = torch.arange(37) >= torch.tensor([37, 20, 33])[:, None]
    with torch.no_grad():
        want = theirs(tokens, attention_mask=(~padding).long(), token_type_ids=segments)[0]
        got = model(Inputs(tokens, segments=segments, padding=padding)).states
    torch.testing.assert_close(got[~padding], want[~padding], atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["span", "dynamic", "conventional", "none"])
def test_padding_and_neighbors_in_the_batch_do_not_change_the_states_of_the_words(kind):
    model = build_model("convbert_tiny", vocabulary_size=50, conv_type=kind).eval()
    tokens = torch.randint(0, 50, (2, 37))
    padding = torch.arange(37) >= torch.tensor([37, 20])[:, None]
    together = model(Inputs(tokens, padding=padding)).states[1, :20]
    alone = model(Inputs(tokens[1:, :20])).states[0]
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)


def test_the_states_of_chosen_places_are_those_of_all_places():
    model = build_model("convbert_tiny", vocabulary_size=50).eval()
    inputs, chosen = Inputs(torch.randint(0, 50, (2, 9))), torch.tensor([0, 5, 17])
    every = model(inputs).states.flatten(0, 1)
    torch.testing.assert_close(model.select_states(inputs, chosen), every[chosen])


def test_only_without_convolutions_are_positions_known_by_their_ids_alone():
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


def test_depthwise_convolutions_start_from_a_cut_normal_and_changs_from_torchs_default():
    taps = [
        layer.attention.values.convolution.kernel.span.depthwise.convolution.weight
        for name in ("convbert_small", "convbert_small_chang")
        for layer in build_model(name, vocabulary_size=9, layers=1).layers
    ]
    assert 0.9 * 2 / 9 < taps[0].abs().max() <= 2 / 9
    assert taps[0].std().item() == pytest.approx(0.88 / 9, rel=0.05)  # the cut takes 12 % of 1 / 9
    assert 0.9 / 3 < taps[1].abs().max() <= 1 / 3


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"heads": 3, "width": 12}, "arch.heads must be a multiple of arch.head_ratio, but 3 = 1"),
        ({"heads": 5}, "arch.width must be a multiple of arch.heads, but 8 = 1 x 5 \\+ 3"),
        ({"head_ratio": 0}, "arch.head_ratio must be at least 1, but is 0"),
        ({"kernel_size": 8}, "arch.kernel_size must be odd, but is 8. Choose 7 or 9"),
        ({"groups": 3}, "arch.width must be a multiple of arch.groups, but 8 = 2 x 3 \\+ 2"),
        (
            {"groups": 2, "feed_forward_width": 9},
            "arch.feed_forward_width must be a multiple of arch.groups, but 9 = 4 x 2 \\+ 1",
        ),
        ({"conv_type": "sdconv"}, "must be one of span, .*, none, but is 'sdconv'"),
        ({"kernel_dropout": 1.0}, "arch.kernel_dropout must be at least 0 and below 1"),
    ],
)
def test_what_cannot_be_built_is_refused(changes, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        ConvBertConfig(**{"width": 8, "heads": 2, **changes})
