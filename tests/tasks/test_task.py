from typing import ClassVar

import pytest

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.tasks.task import Learner, Task

WORDS = Vocabulary(["<unk>", "<s>", "</s>", "<pad>"], unk=0, cls=1, sep=2, pad=3, mask=0)


class Silent(Task):
    """Has no idea of masks."""

    @classmethod
    def examples(cls, config, source):
        raise NotImplementedError

    def predict(self, encoder, batch):
        return {}


class Fills(Silent):
    def fill_mask(self, encoder, tokenizer, sentences, top):
        assert not encoder.training, "dropout must be off"
        return [[[(tokenizer, 1.0)] * top] for _ in sentences]


def learner(task, tokenizer="word"):
    found = Learner(build_model("bert_tiny", vocabulary_size=9, layers=1), task)
    found.tokenizer = tokenizer
    return found


def test_one_sentence_is_answered_by_its_gaps_and_a_list_by_a_list():
    assert learner(Fills()).fill_mask("The [MASK].", top=2) == [[("word", 1.0)] * 2]
    assert learner(Fills()).fill_mask(["[MASK]", "[MASK]"], top=1) == [[[("word", 1.0)]]] * 2


@pytest.mark.parametrize(("options", "sizes"), [({}, [32, 8]), ({"batch_size": 40}, [40])])
def test_so_many_sentences_are_filled_together_as_is_asked_for(options, sizes):
    class Counts(Fills):
        found: ClassVar[list[int]] = []

        def fill_mask(self, encoder, tokenizer, sentences, top):
            self.found.append(len(sentences))
            return super().fill_mask(encoder, tokenizer, sentences, top)

    assert len(learner(Counts()).fill_mask(["[MASK]"] * 40, **options)) == 40
    assert Counts.found == sizes
    with pytest.raises(ToolkitError, match=r"batch_size must be at least 1, but is 0"):
        learner(Fills()).fill_mask(["[MASK]"], batch_size=0)


def test_filling_masks_leaves_a_learner_in_training_as_it_was():
    training = learner(Fills()).train()
    training.fill_mask("[MASK]")
    assert training.training and training.encoder.training


def test_a_task_that_does_not_learn_to_fill_masks_says_so():
    with pytest.raises(ToolkitError, match=r"a task such as mlm; this one was trained"):
        learner(Silent(), WordLevelTokenizer(WORDS)).fill_mask("[MASK]")


def test_a_learner_without_vocabulary_says_how_to_get_one():
    with pytest.raises(ToolkitError, match=r"has no tokenizer. Load it with load_checkpoint"):
        learner(Fills(), tokenizer=None).fill_mask("[MASK]")
