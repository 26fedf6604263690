from __future__ import annotations

import dataclasses

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.data.dictionary import Dictionary
from toolkit.models.inputs import Sizes
from toolkit.tasks.fill_order import coded, fill_order
from toolkit.tasks.task import Learner

WORDS = "bob once asked alice to borrow a book"


@pytest.fixture
def codec(tmp_path):
    path = tmp_path / "dict.txt"
    path.write_text("".join(f"{word} 1\n" for word in WORDS.split()))
    return Dictionary.read(path)


def knowing(codec, told):
    """Scores of a model that knows where each word belongs; positions count from 1."""

    def scores(inputs, places):
        ids = inputs.tokens[0, places]
        own = torch.tensor([told[codec.vocabulary.symbols[i]] for i in ids.tolist()])
        return 5.0 * torch.nn.functional.one_hot(own, 20).float()

    return scores


def encoder(codec):
    entry = ARCHITECTURES["taco_tiny"]
    return entry.build(entry.config, Sizes(tokens=len(codec.vocabulary)))


def test_words_in_braces_go_where_the_model_has_them(codec):
    told = {word: place for place, word in enumerate(WORDS.split(), 1)}
    given = "bob once {borrow} alice to {asked} a book"
    text, gaps = fill_order(knowing(codec, told), encoder(codec), codec, given, 2)
    assert text == WORDS
    assert [gap[0][0] for gap in gaps] == ["borrow 6", "asked 3"] and len(gaps[0]) == 2
    assert sum(share for _, share in gaps[0]) == pytest.approx(1.0)


def test_without_braces_all_words_are_ordered(codec):
    told = {word: place for place, word in enumerate(WORDS.split(), 1)}
    given = "alice once asked bob"
    text, gaps = fill_order(knowing(codec, told), encoder(codec), codec, given, 1)
    assert text == "bob once asked alice" and len(gaps) == 4


@pytest.mark.parametrize(
    ("sentence", "complaint"),
    [("bob {once} asked", "fewer than two tokens"), ("a " * 9, "11 tokens, more than the 8 of")],
)
def test_what_cannot_be_ordered_is_told(codec, sentence, complaint):
    with pytest.raises(ToolkitError, match=complaint):
        coded(codec, sentence, 8)


def test_a_learner_orders_in_evaluation_and_goes_back_to_training(codec):
    torch.manual_seed(0)
    net, task = encoder(codec), TASKS["mpm"]
    learner = Learner(net, task.build(task.config, net, Sizes(tokens=len(codec.vocabulary)), None))
    learner.codec = codec
    first, second = (learner.train().fill_order("bob once asked") for _ in range(2))
    assert first == second and learner.training
    assert sorted(first[0].split()) == ["asked", "bob", "once"]


def test_a_task_that_learnt_no_order_is_refused(codec):
    net = encoder(codec)
    for name, config in (("mlm", {}), ("mpm", {"objectives": "mlm"})):
        task = TASKS[name]
        c = dataclasses.replace(task.config, **config)
        learner = Learner(net, task.build(c, net, Sizes(tokens=len(codec.vocabulary)), None))
        learner.codec = codec
        with pytest.raises(ToolkitError, match="ordering words needs a"):
            learner.fill_order("bob once asked")
