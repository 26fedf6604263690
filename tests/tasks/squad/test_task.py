"""The task squad: examples and answers."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tests.helpers.preprocessing import preprocess_config
from tests.tasks.conftest import ASKED, NOTHING, TOWN
from toolkit import build_model, load_checkpoint
from toolkit.commands.validate import evaluate_checkpoints
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.checkpoints import ValidateConfig
from toolkit.config.load import compose
from toolkit.criteria import IGNORED
from toolkit.data.formats.qa.format import character_span
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.squad.examples import SquadConfig, SquadExamples
from toolkit.training.run import run


def test_scores_are_fp32_for_lower_precision_states(questions):
    folder = questions()
    learner = build_model("bert_tiny", task="squad", vocabulary_size=len(folder.vocabulary))
    examples = SquadExamples(SquadConfig(tokens_per_sample=30), SplitSource(folder, "train"))
    with torch.autocast("cpu", torch.bfloat16):
        scores = learner(examples.collate(np.arange(3), None))["begin"].logits
    assert scores.dtype == torch.float32


def options(folder, target, **changes):
    small = {"arch": "bert_tiny", "arch.layers": 1, "arch.dropout": 0.0, "task": "squad"}
    recipe = {"lr": 5e-3, "batch_size": 4, "num_workers": 0, "max_epoch": 12, "best_metric": "f1"}
    where = {"data.dirs": [str(folder.path)], "save_dir": str(target)}
    return compose({**small, **recipe, **where, "training.precision": "fp32", **changes})


@pytest.mark.slow
def test_run_learns_answers_and_writes_predictions(questions, tmp_path):
    folder = questions(asked=[*ASKED, *NOTHING], version="v2.0", bare=ASKED[:1])
    changes = {"task.tokens_per_sample": 20, "task.stride": 8}
    result = run(options(folder, tmp_path / "run", **changes))
    assert result.best["metric"] == "f1" and result.best["value"] == 1.0
    sources = {"dirs": [str(folder.path)], "path": [str(tmp_path / "run")], "num_workers": 0}
    files = {"predictions": str(tmp_path / "x.json"), "precision": "fp32"}
    evaluate_checkpoints(ValidateConfig(**sources, valid_subset="test", **files))
    assert json.loads((tmp_path / "x.json").read_text()) == {"q1": "Anna Bell."}
    threshold = load_checkpoint(tmp_path / "run").task.null_threshold
    results = evaluate_checkpoints(
        ValidateConfig(**sources, valid_subset="train", precision="fp32")
    )
    [metrics] = results.values()
    assert metrics["train"]["null_threshold"] == float(threshold) != 0
    assert metrics["train"]["f1"] == 1.0


def make_examples(folder, split="train", training=False, **options):
    c = SquadConfig(**{"tokens_per_sample": 16, "stride": 4, **options})
    return SquadExamples(c, SplitSource(folder, split, training=training))


def read_back(examples, batch, row):
    """The text at a window's targets."""
    window = int(batch.ids[row])
    skipped = int(examples.windows.starts[window] - batch.passage_starts[row])
    first, last = (int(it[row]) + skipped for it in (batch.starts, batch.ends))
    passage = examples.split.read_passage(int(examples.windows.question_ids[window]))
    return passage.text[slice(*character_span(passage.begins, passage.ends, first, last))]


def test_windows_follow_their_question(questions):
    folder = questions()
    examples = make_examples(folder)
    batch = examples.collate(np.arange(len(examples.lengths)), None)
    words, tokenizer = folder.vocabulary, folder.tokenizer
    question, passage = tokenizer.encode("Who built the mill?"), tokenizer.encode(TOWN)
    room = 16 - 3 - len(question)
    first = [words.cls, *question, words.sep, *passage[:room], words.sep]
    second = [words.cls, *question, words.sep, *passage[4 : 4 + room], words.sep]
    assert batch.inputs.tokens[:2].tolist() == [first, second]
    assert batch.inputs.segments[0].tolist() == [0] * (len(question) + 2) + [1] * (room + 1)
    assert batch.allowed[0].nonzero().flatten().tolist() == [0, *range(6, 6 + room)]
    assert examples.lengths.max() == 16 and batch.tokens == examples.lengths.sum()


def test_targets_are_in_the_windows_that_contain_the_whole_answer(questions):
    examples = make_examples(questions())
    batch = examples.collate(np.arange(len(examples.lengths)), None)
    answers = {0: "Anna Bell.", 1: "1905", 2: "Jose,"}
    for row, question in enumerate(examples.windows.question_ids.tolist()):
        inside = batch.starts[row] > 0
        assert not inside or read_back(examples, batch, row) == answers[question]
    has_answer = batch.starts > 0
    assert [has_answer[examples.windows.question_ids == q].any() for q in range(3)] == [True] * 3
    assert (batch.ends[~has_answer] == 0).all() and not has_answer.all()
    assert batch.weights == {"begin": len(has_answer), "end": len(has_answer)}


def test_unanswerable_questions_have_targets_at_cls_and_unknown_ones_none(questions):
    bare = [{"id": "x", "question": "Who?", "answers": []}]
    folder = questions(asked=[*ASKED, *NOTHING], bare=bare)
    examples = make_examples(folder, tokens_per_sample=60)
    assert examples.collate(np.array([3]), None).starts.tolist() == [0]
    unknown = make_examples(folder, "test").collate(np.arange(2), None)
    assert unknown.starts.tolist() == [IGNORED] * 2 and unknown.weights["end"] == 0
    with pytest.raises(
        ToolkitError, match=r"has questions without answers and cannot be used for training"
    ):
        make_examples(folder, "test", training=True)


def test_long_questions_are_truncated_and_reported(questions):
    examples = make_examples(questions(), question_tokens=2)
    assert examples.remark == "windows of 3 questions, 2 of them truncated"
    assert examples.collate(np.array([0]), None).passage_starts.tolist() == [4]


def test_blank_passages_have_one_window_without_tokens(questions):
    blank = [{"id": "x", "question": "Who?", "answers": [{"text": "Bo", "answer_start": 0}]}]
    folder = questions(trainpref="", asked=blank, context=" ", tokenizer=None, srcdict=None,
                       tokenizer_from=str(questions().path))  # fmt: skip
    batch = make_examples(folder, "valid").collate(np.arange(1), None)
    assert batch.inputs.tokens.shape[1] == len(["Who?"]) + 3
    assert batch.allowed.sum() == 1 and batch.starts.tolist() == [IGNORED]


@pytest.mark.slow
@pytest.mark.realdata
def test_squad_answers_are_in_a_window_and_read_back_unless_they_cut_a_token(real_data, tmp_path):
    where = {"destdir": str(tmp_path / "data"), "workers": 1}
    pieces = {"tokenizer": "wordpiece", "vocab_size": 8000, "lowercase": True}
    real = str(real_data / "squad/v1.1/dev-v1.1.json")
    preprocess(preprocess_config(format="squad", trainpref=real, **where, **pieces))
    examples = make_examples(DataFolder.open(tmp_path / "data"), tokens_per_sample=384, stride=128)
    texts = {}
    for ids in np.array_split(np.arange(len(examples.lengths)), 150):
        batch = examples.collate(ids, None)
        for row in (batch.starts > 0).nonzero()[:, 0].tolist():
            question = int(examples.windows.question_ids[ids[row]])
            texts.setdefault(question, set()).add(read_back(examples, batch, row))
    expected = [record["answers"][0].strip() for record in examples.split.records]
    pairs = [(text, texts[question]) for question, text in enumerate(expected)]
    assert all(len(several) == 1 and text in min(several) for text, several in pairs)
    assert np.mean([several == {text} for text, several in pairs]) > 0.99
