"""Metrics and variants in words."""

import pytest

from toolkit.analysis.plots.labels import label_metric, label_variants


@pytest.mark.parametrize(
    ("metric", "label", "factor"),
    [
        ("loss", "loss (nats)", 1.0),
        ("mlm_loss", "loss of masked tokens (nats)", 1.0),
        ("oov_accuracy", "accuracy of unknown words (%)", 100.0),
        ("generator_accuracy", "generator accuracy (%)", 100.0),
        ("ppl", "perplexity", 1.0),
        ("auc", "AUC", 1.0),
        ("tokens_per_second", "tokens per second", 1.0),
        ("my_metric", "my metric", 1.0),
    ],
)
def test_metrics_have_labels_with_units(metric, label, factor):
    assert label_metric(metric) == (label, factor)


@pytest.mark.parametrize(
    ("names", "labels", "title"),
    [
        (["conv_type=span", "conv_type=none"], ["span", "none"], "conv type"),
        (["arch=order_rope", "arch=order_none"], ["rope", "none"], "arch"),
        (["fixed=true, dynamic=false", "fixed=true, dynamic=true"],
         ["fixed, no dynamic", "fixed, dynamic"], ""),
        (["conv_san_add", "conv_san_pr"], ["add", "pr"], ""),
        (["bert-s", "bert-s-2", "bert"], ["bert-s", "bert-s-2", "bert"], ""),
        (["fixed=true", "fixed=false"], ["fixed", "no fixed"], ""),
        (["my_run"], ["my run"], ""),
        (["a", "a_b"], ["a", "a b"], ""),
    ],
)  # fmt: skip
def test_variants_are_named_in_words(names, labels, title):
    assert label_variants(names) == (dict(zip(names, labels, strict=True)), title)
