"""Predictions on raw items equal those of an evaluation of the same items in a data folder."""

import json
import logging

import numpy as np
import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.tasks.examples import SplitSource

TABLE = "sentence1\tsentence2\tlabel\n"
SENTENCES = [["I", "bark", "."], ["the", "cat", "barks", "loudly", "."], ["dog"]]


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


@torch.no_grad()
def collect(learner, folder, split):
    """The results of toolkit-validate after one batch of the whole split."""
    task = learner.task
    config = task.resolve_for(task.config, learner.encoder)
    examples = task.examples(config, SplitSource(folder, split))
    results = task.results(examples)
    batch = examples.collate(np.arange(len(examples)), None)
    results.update(batch, learner(batch))
    return results


def test_labels_equal_those_of_an_evaluation(glue):
    folder = glue("RTE")
    learner = build("glue", folder)
    pairs = [("cats run", "a cat"), ("dogs", "cats")]
    predictions = learner.predict(pairs, batch_size=1)
    expected = collect(learner, folder, "valid").records()
    assert [p.label for p in predictions] == [p.label for p in expected]
    for prediction, other in zip(predictions, expected, strict=True):
        assert prediction.probabilities == pytest.approx(other.probabilities, abs=1e-6)
    for prediction in predictions:
        assert sum(prediction.probabilities.values()) == pytest.approx(1.0)
        assert prediction.probability == max(prediction.probabilities.values())
        assert prediction.probability == prediction.probabilities[prediction.label]


def test_numbers_equal_those_of_an_evaluation_and_are_clipped(glue):
    folder = glue("STS-B")
    learner = build("glue", folder)
    pairs = [("the cat sat", "a cat sat"), ("dogs run", "cats")]
    with torch.no_grad():
        learner.task.head.output.bias.fill_(2.0)
        learner.task.head.output.weight.mul_(0.01)
    expected = collect(learner, folder, "train").predicted[:2]
    values = [prediction.value for prediction in learner.predict(pairs)]
    assert values == pytest.approx(expected.tolist(), abs=1e-6) and values[0] != values[1]
    learner.task.head.output.bias.data.fill_(9.0)
    assert [prediction.value for prediction in learner.predict(pairs)] == [5.0, 5.0]


def test_answers_equal_those_of_an_evaluation(questions):
    folder = questions("squad")
    learner = build("squad", folder, max_positions=48)
    results = collect(learner, folder, "valid")
    context = results.split.read_passage(0).text
    asked = ["Who built the mill?", "When was it built?", "Who cooks?"]
    predictions = learner.predict([(question, context) for question in asked])
    assert [p.answer for p in predictions] == [p.answer for p in results.records()]
    for prediction in predictions:
        assert context[prediction.start : prediction.end] == prediction.answer


def test_answers_do_not_depend_on_the_order_of_passages(questions):
    learner = build("squad", questions("squad"), max_positions=24)
    contexts = ["Anna Bell built it.", "The mill was built in 1905. " * 6]
    items = [("Who built it?", contexts[0]), ("When?", contexts[1]), ("Where?", contexts[0])]
    forward = learner.predict(items, batch_size=2)
    backward = learner.predict(items[::-1], batch_size=1)
    assert [p.answer for p in forward] == [p.answer for p in backward[::-1]]
    assert [p.start for p in forward] == [p.start for p in backward[::-1]]


def test_only_a_tuned_threshold_leaves_questions_unanswered(questions):
    learner = build("squad", questions("squad"), max_positions=48)
    items = [
        {"question": question, "context": context}
        for question in ("Who built the mill?", "When?", "Jose")
        for context in ("Anna", "Later a cook, Jose, came to the mill.", "1905")
    ]
    predictions = learner.predict(items)
    assert all(p.answer for p in predictions) and any(p.no_answer_odds > 0 for p in predictions)
    item, answered = items[0], predictions[0]
    learner.task.null_threshold.fill_(answered.no_answer_odds - 1.0)
    [unanswered] = learner.predict([item])
    assert (unanswered.answer, unanswered.start, unanswered.end) == ("", -1, -1)


def test_options_equal_those_of_an_evaluation(questions):
    folder = questions("race")
    learner = build("multiple_choice", folder, max_positions=48)
    race = json.loads((folder.path.parent / "high" / "1.txt").read_text())
    items = [
        {"article": race["article"], "question": question, "options": options}
        for question, options in zip(race["questions"], race["options"], strict=True)
    ]
    predictions = learner.predict(items)
    expected = collect(learner, folder, "valid").predicted[: len(items)]
    assert [p.option for p in predictions] == expected.tolist()
    assert [p.text for p in predictions] == [
        item["options"][p.option] for item, p in zip(items, predictions, strict=True)
    ]
    assert sum(predictions[0].probabilities) == pytest.approx(1.0)


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


@pytest.mark.parametrize("max_tokens", [1, 30])
def test_items_longer_than_max_tokens_are_answered(questions, max_tokens):
    """Multiple choice: all options of a question are in one batch."""
    learner = build("multiple_choice", questions("race"), max_positions=48)
    items = [("the cat sat", "dogs", "cats"), ("the cat sat " * 9, "on", "a", "mat")] * 2
    limited = learner.predict(items, max_tokens=max_tokens)
    for prediction, expected in zip(limited, learner.predict(items), strict=True):
        assert prediction.option == expected.option
        assert prediction.probabilities == pytest.approx(expected.probabilities, abs=1e-6)


def test_only_single_items_exceed_max_tokens(glue):
    learner, batches = build("glue", glue("RTE")), []
    learner.register_forward_pre_hook(lambda _, inputs: batches.append(inputs[0]))
    items = [("cat " * words, "dog") for words in (1, 2, 90, 3, 3, 2, 1, 60)]
    assert len(learner.predict(items, max_tokens=30)) == len(items)
    long = [batch for batch in batches if batch.inputs.tokens.numel() > 30]
    assert [batch.sentences for batch in long] == [1, 1] and len(batches) < len(items)


@pytest.mark.parametrize("limit", ["batch_size", "max_tokens"])
def test_limits_of_batches_must_be_at_least_1(glue, limit):
    learner = build("glue", glue("RTE"))
    with pytest.raises(ToolkitError, match=f"{limit} must be at least 1, but is 0. Raise it"):
        learner.predict([("a", "b")], **{limit: 0})


def test_tags_equal_those_of_an_evaluation(tagged):
    folder = tagged()
    learner = build("pos_tagging", folder, "conv_san_ud", heads=2, fixed_length=3, word_width=16)
    expected = collect(learner, folder, "valid").records()
    predictions = learner.predict(SENTENCES)
    assert [(p.words, p.tags) for p in predictions] == [(p.words, p.tags) for p in expected]
    assert learner.predict([" ".join(words) for words in SENTENCES]) == predictions
    assert [p.tags for p in predictions] == learner.tag(SENTENCES)
    assert [len(p.probabilities) for p in predictions] == [3, 5, 1]


def test_an_empty_sentence_has_no_tags(tagged):
    learner = build("pos_tagging", tagged(), "conv_san_ud", heads=2, word_width=16)
    assert [p.tags for p in learner.predict(["", " "])] == [[], []]
    assert learner.predict([]) == []


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
