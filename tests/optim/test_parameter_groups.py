import pytest
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.optim.parameter_groups import (
    OptimizerConfig,
    build_parameter_groups,
    is_exempt_from_decay,
    is_hidden_matrix,
    layerwise_lr_factors,
)
from toolkit.tasks.build import build_model


def tiny(**overrides):
    return build_model("composite_bert_tiny", vocabulary_size=11, task="mlm", **overrides)


def test_weight_decay_exempts_norms_and_biases_only():
    learner = tiny(layers=1, convolve=["query"])
    norms = {
        f"{owner}.{name}"
        for owner, module in learner.named_modules()
        if isinstance(module, nn.LayerNorm)
        for name, _ in module.named_parameters()
    }
    assert norms
    for name, _ in learner.named_parameters():
        assert is_exempt_from_decay(name) == (name in norms or "bias" in name.rpartition(".")[2]), (
            name
        )


def test_parameter_groups_hold_every_parameter_once_and_decay_all_but_the_exempt():
    named = list(tiny().named_parameters())
    groups = build_parameter_groups(
        named, OptimizerConfig(layerwise_lr_decay=0.5), matrix=is_hidden_matrix
    )
    names = [name for group in groups for name, _ in group["params"]]
    assert sorted(names) == sorted(name for name, _ in named)
    for group in groups:
        assert {is_exempt_from_decay(name) for name, _ in group["params"]} == {
            group["weight_decay"] == 0.0
        }


@pytest.mark.parametrize(
    ("arch", "switch", "decays"),
    [
        ("ltg_bert_tiny", "weighted_residuals", False),
        ("ltg_bert_tiny", "layer_average", True),
        ("gpt_bert_tiny", None, True),
    ],
)
def test_weights_that_mix_layers_decay_unless_they_replace_residuals(arch, switch, decays):
    options = {switch: True} if switch else {}
    learner = build_model(arch, vocabulary_size=11, task="mlm", layers=3, **options)
    c = OptimizerConfig(lr=1.0, weight_decay=0.1, layerwise_lr_decay=0.5)
    name = f"encoder.layers.{'layer' if decays else 'residual'}_weights"
    groups = build_parameter_groups(learner.named_parameters(), c)
    [group] = [it for it in groups if name in dict(it["params"])]
    assert (group["weight_decay"], group["no_decay"]) == ((0.1, False) if decays else (0, True))
    assert group["lr"] == 0.5, "that of the top layer"


def test_hidden_matrices_are_the_linear_maps_of_the_layers():
    learner = tiny(convolve=["query"], depthwise=True, absolute_positions=True)
    linear = {
        f"{owner}.weight"
        for owner, module in learner.encoder.layers.named_modules(prefix="encoder.layers")
        if isinstance(module, nn.Linear)
    }
    assert {n for n, p in learner.named_parameters() if is_hidden_matrix(n, p)} == linear
    assert len(linear) == 2 * 7


def test_layerwise_lr_factors_fall_from_the_top_layer_to_the_embeddings():
    names = [
        "encoder.embeddings.words.weight", "encoder.layers.0.output.weight",
        "encoder.layers.1.output.weight", "encoder.norm.weight", "task.head.layers.0.weight",
    ]  # fmt: skip
    assert layerwise_lr_factors(names, 0.5) == [0.125, 0.25, 0.5, 1, 1]
    assert layerwise_lr_factors(names, 1.0) == [1] * 5


def test_parameter_groups_of_an_architecture_have_layerwise_rates():
    c = OptimizerConfig(lr=1.0, layerwise_lr_decay=0.5)
    groups = build_parameter_groups(tiny(layers=2).named_parameters(), c)
    rates = {name: group["lr"] for group in groups for name, _ in group["params"]}
    assert rates["encoder.embeddings.words.weight"] == 0.125
    assert rates["encoder.embeddings.norm.bias"] == 0.125
    assert rates["encoder.layers.0.feed_forward.wide.weight"] == 0.25
    assert rates["encoder.layers.1.after_attention.norm.bias"] == 0.5
    assert rates["task.head.transform.weight"] == rates["task.head.bias"] == 1.0


def test_layerwise_lr_factors_treat_output_embeddings_as_heads_and_positions_as_embeddings():
    options = {"share_embeddings": "none", "positions": "learned", "max_positions": 8}
    learner = build_model("transformer_tiny", vocabulary_size=9, task="translation", **options)
    names = [name for name, _ in learner.named_parameters()]
    rates = dict(zip(names, layerwise_lr_factors(names, 0.5), strict=True))
    scores = [rate for name, rate in rates.items() if ".separate_output_embedding." in name]
    assert scores and set(scores) == {1.0}
    embedded = {rate for name, rate in rates.items() if ".embeddings." in name}
    assert embedded == {min(rates.values())} and len(set(rates.values())) > 3


def test_layerwise_rates_of_two_stacks_depend_on_the_depth_of_each():
    options = {"encoder_layers": 6, "decoder_layers": 2, "positions": ["learned"], "width": 16}
    learner = build_model(
        "transformer_tiny", vocabulary_size=9, task="translation", max_positions=8, **options
    )
    names = [name for name, _ in learner.named_parameters()]
    rates = dict(zip(names, layerwise_lr_factors(names, 0.5), strict=True))
    for stack, depth in (("encoder", 6), ("decoder", 2)):
        for layer in range(depth):
            of_layer = f"encoder.{stack}.layers.{layer}.feed_forward.wide.weight"
            assert rates[of_layer] == 0.5 ** (depth - layer)
        assert rates[f"encoder.{stack}.embeddings.positions.weight"] == 0.5 ** (depth + 1)
    assert rates["encoder.embedding.weight"] == 0.5**7


def test_layerwise_lr_factors_reject_an_encoder_without_layers():
    with pytest.raises(
        ToolkitError, match=r"layerwise_lr_decay requires an encoder with parameters named layers.0"
    ):
        layerwise_lr_factors(["encoder.token_embedding.weight", "task.layers.0.weight"], 0.9)
