from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.storage.data_folder import DataFolder
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.translation import TranslationConfig, TranslationExamples


@pytest.fixture
def make_examples(parallel):
    def make(split="train", training=True, row_multiple=1, **options):
        source = SplitSource(DataFolder.open(parallel), split, 1, training, row_multiple)
        return TranslationExamples(TranslationConfig(**options), source)

    return make


def sides(make_examples):
    return make_examples.split.source.lengths, make_examples.split.target.lengths


def test_targets_start_after_the_end_symbol_and_end_with_it(make_examples):
    examples = make_examples()
    batch, end = examples.collate(np.array([3]), 1), examples.split.tokenizer.vocabulary.sep
    text = examples.split.target.take(np.array([3]), examples.split.target.lengths[3:4]).ids
    assert batch.previous.tolist() == [[end, *text]] and batch.targets.tolist() == [*text, end]
    assert batch.inputs.tokens.tolist() == [[*text[::-1], end]] and batch.inputs.padding is None


def test_pairs_of_unequal_length_are_padded_and_padding_is_not_predicted(make_examples):
    examples = make_examples()
    ids = np.arange(len(examples.lengths))
    batch = examples.collate(ids, 1)
    source, target = sides(examples)
    assert batch.inputs.padding.sum(1).tolist() == (source.max() - source).tolist()
    assert batch.weights == {"translation": float((target + 1).sum())}
    assert batch.tokens == (source + target + 2).sum() and batch.pair_ids.tolist() == ids.tolist()
    grid = batch.previous.flatten()[batch.selected]
    assert (grid != examples.split.tokenizer.vocabulary.pad).all() and len(grid) == len(
        batch.targets
    )


def test_pair_length_is_that_of_the_longer_side_so_that_both_fit_the_budget(make_examples):
    source, target = sides(examples := make_examples())
    assert examples.lengths.tolist() == (np.maximum(source, target) + 1).tolist()


def test_overlong_pairs_are_reported_skipped_or_truncated(make_examples):
    with pytest.raises(ToolkitError, match=r"at most 6 tokens, .*pair \d+ of train in .* has 8\."):
        make_examples(tokens_per_sample=6)
    source, _ = sides(whole := make_examples())
    skipped = make_examples(tokens_per_sample=6, overlength="skip")
    assert len(skipped.lengths) == (source < 6).sum() < len(whole.lengths)
    assert skipped.remark == f"{(source > 5).sum()} with more than 6 tokens skipped"
    assert (
        skipped.collate(np.array([0]), 1).pair_ids.tolist()
        == np.flatnonzero(source < 6)[:1].tolist()
    )
    truncated = make_examples(tokens_per_sample=6, overlength="truncate")
    assert truncated.lengths.max() == 6 and "truncated" in truncated.remark
    assert len(truncated.lengths) == len(whole.lengths)


def test_examples_report_that_all_pairs_are_skipped_and_what_would_help(make_examples):
    message = r"Every pair of train in .* has more than 2 tokens, end symbol included\. Raise"
    with pytest.raises(ToolkitError, match=message):
        make_examples(tokens_per_sample=2, overlength="skip")


def test_validation_skips_no_pair(make_examples):
    examples = make_examples(tokens_per_sample=4, overlength="skip", training=False)
    assert len(examples.lengths) == len(examples.split) and examples.lengths.max() == 4


def test_idle_rank_has_a_batch_of_weight_zero(make_examples):
    batch = make_examples().collate(np.zeros(0, np.int64), None)
    assert batch.weights == {"translation": 0.0} and batch.sentences == batch.tokens == 0
    assert (batch.targets == IGNORED).all() and batch.pair_ids.tolist() == [-1]


def test_row_multiples_pad_the_selected_positions(make_examples):
    batch = make_examples(row_multiple=64).collate(np.arange(3), None)
    assert len(batch.selected) % 64 == 0 == len(batch.targets) % 64
    real = batch.targets != IGNORED
    assert real.sum() == batch.weights["translation"] and not batch.selected[~real].any()
    assert torch.equal(real.sort(descending=True).values, real)
