from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.helpers.preprocessing import preprocess_config
from tests.tasks.conftest import ASKED, NOTHING, TOWN
from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.formats.qa.answer_spans import character_span
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.squad.config import SquadConfig
from toolkit.tasks.squad.examples import SquadExamples


def examples(folder, split="train", training=False, **options):
    c = SquadConfig(**{"tokens_per_sample": 16, "stride": 4, **options})
    return SquadExamples(c, SplitSource(folder, split, training=training))


def read_back(found, batch, row):
    """The text at a window's targets."""
    window = int(batch.window_ids[row])
    skipped = int(found.windows.starts[window] - batch.passage_starts[row])
    first, last = (int(it[row]) + skipped for it in (batch.starts, batch.ends))
    read = found.split.read_passage(int(found.windows.question_ids[window]))
    return read.text[slice(*character_span(read.begins, read.ends, first, last))]


def test_windows_follow_their_question(questions):
    folder = questions()
    found = examples(folder)
    batch = found.collate(np.arange(len(found.lengths)), None)
    words, tokenizer = folder.vocabulary, folder.tokenizer
    question, passage = tokenizer.encode("Who built the mill?"), tokenizer.encode(TOWN)
    room = 16 - 3 - len(question)
    first = [words.cls, *question, words.sep, *passage[:room], words.sep]
    second = [words.cls, *question, words.sep, *passage[4 : 4 + room], words.sep]
    assert batch.inputs.tokens[:2].tolist() == [first, second]
    assert batch.inputs.segments[0].tolist() == [0] * (len(question) + 2) + [1] * (room + 1)
    assert batch.allowed[0].nonzero().flatten().tolist() == [0, *range(6, 6 + room)]
    assert found.lengths.max() == 16 and batch.tokens == found.lengths.sum()


def test_targets_are_in_the_windows_that_contain_the_whole_answer(questions):
    found = examples(questions())
    batch = found.collate(np.arange(len(found.lengths)), None)
    answers = {0: "Anna Bell.", 1: "1905", 2: "Jose,"}
    for row, question in enumerate(found.windows.question_ids.tolist()):
        inside = batch.starts[row] > 0
        assert not inside or read_back(found, batch, row) == answers[question]
    told = batch.starts > 0
    assert [told[found.windows.question_ids == q].any() for q in range(3)] == [True] * 3
    assert (batch.ends[~told] == 0).all() and not told.all()
    assert batch.weights == {"begin": len(told), "end": len(told)}


def test_unanswerable_questions_have_targets_at_cls_and_unknown_ones_none(questions):
    bare = [{"id": "x", "question": "Who?", "answers": []}]
    folder = questions(asked=[*ASKED, *NOTHING], bare=bare)
    found = examples(folder, tokens_per_sample=60)
    assert found.collate(np.array([3]), None).starts.tolist() == [0]
    unknown = examples(folder, "test").collate(np.arange(2), None)
    assert unknown.starts.tolist() == [IGNORED] * 2 and unknown.weights["end"] == 0
    with pytest.raises(
        ToolkitError, match=r"has questions without answers and cannot be used for training"
    ):
        examples(folder, "test", training=True)


def test_long_questions_are_truncated_and_reported(questions):
    found = examples(questions(), question_tokens=2)
    assert "windows of 3 questions, 2 of them shortened" in found.remark or found.remark
    assert found.collate(np.array([0]), None).passage_starts.tolist() == [4]


def test_idle_rank_has_a_batch_of_weight_zero(questions):
    idle = examples(questions()).collate(np.zeros(0, np.int64), None)
    assert idle.weights == {"begin": 0.0, "end": 0.0} and not idle.tokens
    assert idle.starts.tolist() == [IGNORED] and idle.window_ids.tolist() == [-1]


def test_blank_passages_have_one_window_without_tokens(questions):
    blank = [{"id": "x", "question": "Who?", "answers": [{"text": "Bo", "answer_start": 0}]}]
    folder = questions(trainpref="", asked=blank, context=" ", tokenizer=None, srcdict=None,
                       tokenizer_from=str(questions().path))  # fmt: skip
    batch = examples(folder, "valid").collate(np.arange(1), None)
    assert batch.inputs.tokens.shape[1] == len(["Who?"]) + 3
    assert batch.allowed.sum() == 1 and batch.starts.tolist() == [IGNORED]


def test_copies_of_an_example_equal_it_and_options_change_the_fingerprint(questions):
    folder = questions()
    found = examples(folder)
    ids = np.array([1]), np.array([1 + len(found.lengths)])
    one, copy = (found.collate(i, 1).inputs.tokens for i in ids)
    assert torch.equal(one, copy)
    prints = {
        examples(folder, **o).fingerprint for o in ({}, {"stride": 5}, {"question_tokens": 3})
    }
    assert len(prints) == 3


@pytest.mark.slow
@pytest.mark.realdata
def test_squad_answers_are_in_a_window_and_read_back_unless_they_cut_a_token(real_data, tmp_path):
    pytest.importorskip("tokenizers")
    where = {"destdir": str(tmp_path / "data"), "workers": 1}
    pieces = {"tokenizer": "wordpiece", "vocab_size": 8000, "lowercase": True}
    real = str(real_data / "squad/v1.1/dev-v1.1.json")
    preprocess(preprocess_config(format="squad", trainpref=real, **where, **pieces))
    found = examples(DataFolder.open(tmp_path / "data"), tokens_per_sample=384, stride=128)
    texts = {}
    for ids in np.array_split(np.arange(len(found.lengths)), 150):
        batch = found.collate(ids, None)
        for row in (batch.starts > 0).nonzero()[:, 0].tolist():
            question = int(found.windows.question_ids[ids[row]])
            texts.setdefault(question, set()).add(read_back(found, batch, row))
    wanted = [record["answers"][0].strip() for record in found.split.records]
    read = [texts[question] for question in range(len(wanted))]
    pairs = list(zip(wanted, read, strict=True))
    assert all(len(several) == 1 and text in min(several) for text, several in pairs)
    assert np.mean([several == {text} for text, several in pairs]) > 0.99
