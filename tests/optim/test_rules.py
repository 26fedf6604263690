from torch import nn

from toolkit.optim.rules import decayed_and_spared, spared
from toolkit.training.build import build_model


def test_norms_and_biases_keep_their_size_and_all_else_decays():
    learner = build_model(
        "composite_bert_tiny", vocabulary_size=11, task="mlm", layers=1, convolve=["query"]
    )
    norms = {
        f"{owner}.{name}"
        for owner, module in learner.named_modules()
        if isinstance(module, nn.LayerNorm)
        for name, _ in module.named_parameters()
    }
    assert norms
    for name, _ in learner.named_parameters():
        assert spared(name) == (name in norms or "bias" in name.rpartition(".")[2]), name


def test_tables_of_taps_decay_whatever_their_number_of_axes():
    assert not spared("encoder.layers.0.attention.map.terms.1.kernels.0.taps")
    assert not spared("encoder.normalised_words.table.weight")


def test_a_group_without_parameters_is_left_out():
    weight, frozen = nn.Parameter(nn.Linear(2, 2).weight), nn.Parameter(nn.Linear(2, 2).weight)
    frozen.requires_grad_(False)
    groups = decayed_and_spared([("a.weight", weight), ("b.weight", frozen)], 0.1)
    assert groups == [{"params": [("a.weight", weight)], "weight_decay": 0.1}]
