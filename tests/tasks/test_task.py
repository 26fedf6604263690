from __future__ import annotations

from typing import ClassVar

import pytest

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.tasks.learner import Learner
from toolkit.tasks.task import Task
from toolkit.training.run import run

WORDS = Vocabulary(["<unk>", "<s>", "</s>", "<pad>"], unk=0, cls=1, sep=2, pad=3, mask=0)


class NoMasks(Task):
    """A task that cannot fill masks."""

    @classmethod
    def examples(cls, config, source):
        raise NotImplementedError

    def predict(self, encoder, batch):
        return {}


class Fills(NoMasks):
    def fill_mask(self, encoder, tokenizer, sentences, top):
        assert not encoder.training, "dropout must be off"
        return [[[(tokenizer.vocabulary.symbols[0], 1.0)] * top] for _ in sentences]


def learner(task, tokenizer=True):
    made = Learner(build_model("bert_tiny", vocabulary_size=9, layers=1), task)
    if tokenizer:
        made.tokenizer = WordLevelTokenizer(WORDS)
    return made


def test_fill_mask_returns_masks_for_a_sentence_and_a_list_for_a_list():
    assert learner(Fills()).fill_mask("The [MASK].", top=2) == [[("<unk>", 1.0)] * 2]
    assert learner(Fills()).fill_mask(["[MASK]", "[MASK]"], top=1) == [[[("<unk>", 1.0)]]] * 2


@pytest.mark.parametrize(("options", "sizes"), [({}, [32, 8]), ({"batch_size": 40}, [40])])
def test_fill_mask_reads_batch_size_sentences_at_a_time(options, sizes):
    class Counts(Fills):
        counts: ClassVar[list[int]] = []

        def fill_mask(self, encoder, tokenizer, sentences, top):
            self.counts.append(len(sentences))
            return super().fill_mask(encoder, tokenizer, sentences, top)

    assert len(learner(Counts()).fill_mask(["[MASK]"] * 40, **options)) == 40
    assert Counts.counts == sizes
    with pytest.raises(ToolkitError, match=r"batch_size must be at least 1, but is 0"):
        learner(Fills()).fill_mask(["[MASK]"], batch_size=0)


def test_fill_mask_leaves_the_training_mode_as_it_was():
    training = learner(Fills()).train()
    training.fill_mask("[MASK]")
    assert training.training and training.encoder.training


def test_fill_mask_rejects_other_tasks():
    with pytest.raises(ToolkitError, match=r"--task mlm; this one was trained"):
        learner(NoMasks()).fill_mask("[MASK]")


def test_encode_rejects_training_because_it_has_no_head(config):
    with pytest.raises(ToolkitError, match=r"Task encode has no head to train"):
        run(config(task="encode"))
