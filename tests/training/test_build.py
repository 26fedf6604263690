import pytest

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.tasks.task import Learner


def test_overrides_reach_the_architecture():
    encoder = build_model("composite_bert_tiny", vocabulary_size=11, layers=3, width=8)
    assert len(encoder.layers) == 3 and encoder.width == 8


def test_with_a_task_the_learner_has_its_heads():
    learner = build_model("composite_bert_tiny", vocabulary_size=11, task="mlm", layers=1)
    assert isinstance(learner, Learner) and dict(learner.task.named_parameters())


def test_an_unknown_override_is_answered_with_the_nearest_known_one():
    with pytest.raises(ToolkitError, match=r"has no option 'layrs'. Did you mean 'layers'\?"):
        build_model("composite_bert_tiny", vocabulary_size=11, layrs=1)


def test_an_unknown_architecture_is_answered_with_the_nearest_known_one():
    with pytest.raises(ToolkitError, match=r"Did you mean 'composite_bert"):
        build_model("composit_bert", vocabulary_size=11)
