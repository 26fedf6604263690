from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.glue.config import GlueConfig
from toolkit.tasks.glue.examples import GlueExamples


def make_examples(folder, split="train", max_tokens=20, training=False):
    c = GlueConfig(tokens_per_sample=max_tokens)
    return GlueExamples(c, SplitSource(folder, split, training=training))


def test_rows_are_read_as_pairs_with_their_labels(glue):
    folder = glue()
    batch = make_examples(folder, "valid").collate(np.arange(2), None)
    words, rows = folder.vocabulary, batch.inputs.tokens
    for row, texts in zip(rows.tolist(), [("cats run", "a cat"), ("dogs", "cats")], strict=True):
        a, b = (folder.tokenizer.encode(text) for text in texts)
        want = [words.cls, *a, words.sep, *b, words.sep]
        assert row == want + [words.pad] * (rows.shape[1] - len(want))
    assert batch.targets.tolist() == [0, 1] and batch.weights == {"label": 2.0}
    assert torch.equal(rows.flatten()[batch.selected], torch.full((2,), words.cls))
    assert batch.tokens == int((~batch.inputs.padding).sum())


def test_long_pairs_are_truncated_and_reported(glue):
    examples = make_examples(glue(), max_tokens=7)
    assert examples.lengths.max() == 7 and "cut" in examples.remark
    assert examples.collate(np.arange(4), None).inputs.tokens.shape == (4, 7)


def test_copies_of_an_example_equal_it(glue):
    examples = make_examples(glue())
    one, copy = (
        examples.collate(np.array([2]), 1),
        examples.collate(np.array([2 + len(examples.lengths)]), 1),
    )
    assert torch.equal(one.inputs.tokens, copy.inputs.tokens) and copy.row_ids.tolist() == [2]


@pytest.mark.parametrize("task", ["RTE", "STS-B"])
def test_idle_rank_and_unlabeled_rows_have_weight_zero(glue, task):
    folder = glue(task)
    idle = make_examples(folder).collate(np.zeros(0, np.int64), None)
    assert idle.weights == {"label": 0.0} and idle.row_ids.tolist() == [-1] and not idle.tokens
    unknown = idle.targets.isnan() if task == "STS-B" else idle.targets == IGNORED
    assert unknown.all()


def test_training_rejects_unlabeled_rows(glue):
    with pytest.raises(ToolkitError, match=r"Split 'test' of .* has rows without labels"):
        make_examples(glue(), "test", training=True)
    batch = make_examples(glue(), "test").collate(np.arange(2), None)
    assert batch.weights == {"label": 0.0} and batch.targets.tolist() == [IGNORED] * 2


def test_tokens_per_sample_changes_the_fingerprint(glue):
    folder = glue()
    assert make_examples(folder).fingerprint != make_examples(folder, max_tokens=9).fingerprint
