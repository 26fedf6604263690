"""Predictions on raw items in Python: their order, limits of batches, and items of other kinds."""

import logging

import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError


def build(task, folder, arch="bert_tiny", **overrides):
    """An untrained learner with weights large enough for decided predictions."""
    torch.manual_seed(3)
    sizes = folder.tokenizer.sizes
    learner = build_model(arch, sizes=sizes, task=task, **{"layers": 1, **overrides}).eval()
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter.mul_(2.0)
    learner.tokenizer = folder.tokenizer
    return learner


def test_numbers_are_clipped_to_the_range_of_the_labels(glue):
    learner = build("glue", glue("STS-B"))
    learner.task.head.output.bias.data.fill_(99.0)
    assert [it.value for it in learner.predict([("a cat", "the cat")])] == [5.0]


def test_options_may_differ_in_number(questions):
    learner = build("multiple_choice", questions("race"), max_positions=48)
    items = [
        ("the cat sat", "dogs", "cats"),
        ("the cat sat", "on", "a", "mat"),
        ("dogs", "sat", "who sat"),
    ]
    predictions = learner.predict(items)
    assert [len(p.probabilities) for p in predictions] == [2, 3, 2]
    for item, prediction in zip(items, predictions, strict=True):
        [alone] = learner.predict([item])
        assert alone.option == prediction.option
        assert alone.probabilities == pytest.approx(prediction.probabilities, abs=1e-6)


def test_only_single_items_exceed_max_tokens(glue):
    learner, batches = build("glue", glue("RTE")), []
    learner.register_forward_pre_hook(lambda _, inputs: batches.append(inputs[0]))
    items = [("cat " * words, "dog") for words in (1, 2, 90, 3, 3, 2, 1, 60)]
    assert len(learner.predict(items, max_tokens=30)) == len(items)
    long = [batch for batch in batches if batch.inputs.tokens.numel() > 30]
    assert [batch.sentences for batch in long] == [1, 1] and len(batches) < len(items)


def test_truncation_is_said_once(glue, caplog):
    learner = build("glue", glue("RTE"), max_positions=16)
    with caplog.at_level(logging.WARNING):
        learner.predict([("cat " * 50, "dog"), ("dog", "cat " * 50), ("a", "b")])
    assert [r.message for r in caplog.records] == ["2 of 3 items were truncated, as in training."]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("a text", "item 1: an item must have 'sentence1' and 'sentence2', as a tuple"),
        (("a", "b", "c"), "item 1: an item must have 2 parts, 'sentence1' and 'sentence2', but"),
        ({"sentence1": "a"}, "'sentence2' is missing among 'sentence1'. Rename it, or give"),
        ({"sentence1": "a", "sentence2": None}, "'sentence2' must be text, but is null."),
        ({"sentence1": "a", "sentence2": 3}, "'sentence2' must be text, but is a number."),
    ],
)
def test_items_of_another_kind_are_rejected(glue, item, message):
    learner = build("glue", glue("RTE"))
    with pytest.raises(ToolkitError) as caught:
        learner.predict([("a", "b"), item])
    assert message in str(caught.value)


@pytest.mark.parametrize("options", [["one"], ["one", " "], [], "ab"])
def test_an_item_needs_two_options(questions, options):
    learner = build("multiple_choice", questions("race"), max_positions=48)
    with pytest.raises(ToolkitError, match="item 0: "):
        learner.predict([{"context": "a", "options": options}])


def test_text_that_no_file_holds_is_replaced(glue):
    learner = build("glue", glue("RTE"))
    odd = learner.predict([("a\0b \ud800", "c\nd")])
    assert odd == learner.predict([("a\ufffdb \ufffd", "c d")])


def test_predicting_requires_a_list_and_a_task_with_predictions(glue):
    learner = build("glue", glue("RTE"))
    with pytest.raises(ToolkitError, match="takes a list of items"):
        learner.predict("a text")
    learner = build_model("bert_tiny", tokenizer=glue("RTE").tokenizer, task="mlm")
    with pytest.raises(ToolkitError, match=r"--task glue.*; this one was trained with mlm"):
        learner.predict(["a [MASK]"])
