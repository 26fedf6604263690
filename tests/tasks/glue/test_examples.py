from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.glue.config import GlueConfig
from toolkit.tasks.glue.examples import GlueExamples


def examples(folder, split="train", most=20, training=False):
    c = GlueConfig(tokens_per_sample=most)
    return GlueExamples(c, SplitSource(folder, split, training=training))


def test_rows_are_read_as_pairs_with_their_labels(glue):
    folder = glue()
    batch = examples(folder, "valid").collate(np.arange(2), None)
    words, rows = folder.vocabulary, batch.inputs.tokens
    for row, texts in zip(rows.tolist(), [("cats run", "a cat"), ("dogs", "cats")], strict=True):
        a, b = (folder.tokenizer.encode(text) for text in texts)
        want = [words.cls, *a, words.sep, *b, words.sep]
        assert row == want + [words.pad] * (rows.shape[1] - len(want))
    assert batch.targets.tolist() == [0, 1] and batch.weights == {"label": 2.0}
    assert torch.equal(rows.flatten()[batch.selected], torch.full((2,), words.cls))
    assert batch.tokens == int((~batch.inputs.padding).sum())


def test_long_pairs_are_truncated_and_reported(glue):
    found = examples(glue(), most=7)
    assert found.lengths.max() == 7 and "cut" in found.remark
    assert found.collate(np.arange(4), None).inputs.tokens.shape == (4, 7)


def test_copies_of_an_example_equal_it(glue):
    found = examples(glue())
    one, copy = (
        found.collate(np.array([2]), 1),
        found.collate(np.array([2 + len(found.lengths)]), 1),
    )
    assert torch.equal(one.inputs.tokens, copy.inputs.tokens) and copy.row_ids.tolist() == [2]


@pytest.mark.parametrize("task", ["RTE", "STS-B"])
def test_idle_rank_and_unlabeled_rows_have_weight_zero(glue, task):
    folder = glue(task)
    idle = examples(folder).collate(np.zeros(0, np.int64), None)
    assert idle.weights == {"label": 0.0} and idle.row_ids.tolist() == [-1] and not idle.tokens
    unknown = idle.targets.isnan() if task == "STS-B" else idle.targets == IGNORED
    assert unknown.all()


def test_training_rejects_unlabeled_rows(glue):
    with pytest.raises(ToolkitError, match=r"Split 'test' of .* has rows without labels"):
        examples(glue(), "test", training=True)
    batch = examples(glue(), "test").collate(np.arange(2), None)
    assert batch.weights == {"label": 0.0} and batch.targets.tolist() == [IGNORED] * 2


def test_tokens_per_sample_changes_the_fingerprint(glue):
    folder = glue()
    assert examples(folder).fingerprint != examples(folder, most=9).fingerprint
