from __future__ import annotations

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.storage.data_folder import DataFolder
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.multiple_choice import MultipleChoiceConfig, MultipleChoiceExamples


def make_examples(folder, split="train", max_tokens=30, training=False):
    c = MultipleChoiceConfig(tokens_per_sample=max_tokens)
    return MultipleChoiceExamples(c, SplitSource(folder, split, training=training))


def test_options_are_paired_with_their_passage(questions):
    folder = questions("race")
    batch = make_examples(folder).collate(np.array([1]), None)
    words, tokenizer = folder.vocabulary, folder.tokenizer
    passage = tokenizer.encode("the cat sat on a mat and saw dogs")
    wanted = [
        [words.cls, *passage, words.sep, *tokenizer.encode(f"the cat saw {option}"), words.sep]
        for option in ("dogs", "cats")
    ]
    assert batch.inputs.tokens.tolist() == wanted and batch.targets.tolist() == [0]
    assert batch.option_rows.tolist() == [[0, 1]] and batch.sentences == 1
    assert batch.tokens == sum(map(len, wanted))


def test_questions_may_have_different_numbers_of_options(questions):
    first = questions("swag")
    second = questions("race", tokenizer=None, tokenizer_from=str(first.path))
    examples = make_examples(DataFolder.open(first.path, second.path))
    batch = examples.collate(np.array([1, 9]), None)
    assert batch.option_rows.tolist() == [[0, 1, 2], [3, 4, -1]] and batch.targets.tolist() == [
        2,
        0,
    ]
    padded_tokens = batch.inputs.tokens.numel()
    assert padded_tokens <= examples.lengths[[1, 9]].max() * 2, "the bound on tokens holds"


def test_long_passages_are_truncated_and_reported(questions):
    examples = make_examples(questions("race"), max_tokens=9)
    assert examples.collate(np.arange(2), None).inputs.tokens.shape == (4, 9)
    assert "cut" in examples.remark and examples.lengths.max() == 18


def test_idle_rank_and_unknown_answers_have_weight_zero(questions, tmp_path):
    folder = questions("swag")
    idle = make_examples(folder).collate(np.zeros(0, np.int64), None)
    assert (
        idle.weights == {"choice": 0.0} and idle.question_ids.tolist() == [-1] and not idle.tokens
    )
    path = tmp_path / "test.csv"
    path.write_text("sent1,sent2,ending0,ending1\nthe cat,it,sat,ran\n")
    folder = questions("swag", testpref=str(path))
    unknown = make_examples(folder, "test").collate(np.arange(1), None)
    assert unknown.targets.tolist() == [IGNORED] and unknown.weights == {"choice": 0.0}
    with pytest.raises(
        ToolkitError, match=r"has questions without answers and cannot be used for training"
    ):
        make_examples(folder, "test", training=True)
