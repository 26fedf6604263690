from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.pretraining.rtd import (
    ReplacedTokenConfig,
    ReplacedTokenExamples,
    ReplacedTokensBatch,
)


def batch(targets, *, rtd_weight=1.0, padding=None):
    """Two sentences of four tokens, 9 where one is hidden; place 5 is drawn twice."""
    tokens = torch.tensor([[1, 9, 3, 2], [1, 9, 4, 2]])
    places = torch.tensor([1, 5, 5, 0])
    return ReplacedTokensBatch(
        Inputs(tokens, padding=padding), places, torch.tensor(targets), torch.zeros(4),
        {"mlm": 3.0 * rtd_weight, "rtd": 8.0 * rtd_weight}, 2, 8,
    )  # fmt: skip


def test_labels_mark_tokens_that_differ_from_the_original():
    b = batch([7, 8, 8, IGNORED])
    tokens = b.with_tokens(torch.tensor([7, 6, 6, 3]))  # the first one is guessed right
    assert tokens.tolist() == [1, 7, 3, 2, 1, 6, 4, 2]
    assert b.labels(tokens).tolist() == [0, 0, 0, 0, 0, 1, 0, 0]


def test_labels_of_an_idle_rank_are_all_ignored():
    b = batch([IGNORED] * 4, rtd_weight=0.0)
    assert set(b.labels(b.with_tokens(b.targets)).tolist()) == {IGNORED}


@pytest.fixture
def make_examples(data):
    def make(*, training=True, **options):
        return ReplacedTokenExamples(
            ReplacedTokenConfig(**options), SplitSource(DataFolder.open(data), "train", 1, training)
        )

    return make


def test_weights_count_all_tokens_for_rtd_and_selected_ones_for_mlm(make_examples):
    examples = make_examples()
    b = examples.collate(np.arange(6), 1)
    assert b.weights == {"mlm": len(b.targets), "rtd": examples.lengths[:6].sum()}
    assert b.tokens == examples.lengths[:6].sum() and b.sentences == 6
    hidden = b.inputs.tokens.flatten()[b.selected] == examples._masking.vocabulary.mask
    assert hidden.any() and 0.5 < b.targets.numel() / hidden.sum() < 2


def test_draws_of_a_sentence_do_not_depend_on_its_batch(make_examples):
    examples = make_examples()
    batch_of_8, batch_of_4 = examples.collate(np.arange(8), 2), examples.collate(np.arange(4, 8), 2)
    rows = batch_of_8.selected // batch_of_8.inputs.tokens.shape[1]
    assert torch.equal(batch_of_8.draws[rows >= 4], batch_of_4.draws)
    assert not torch.equal(batch_of_4.draws, examples.collate(np.arange(4, 8), 3).draws)


def test_positions_selected_twice_get_one_token(make_examples):
    b = make_examples(mask_rate=0.9).collate(np.arange(20), 1)
    draws = {}
    for position, draw in zip(b.selected.tolist(), b.draws.tolist(), strict=True):
        draws.setdefault(position, set()).add(draw)
    assert len(draws) < len(b.selected) and all(len(values) == 1 for values in draws.values())


def test_rtd_rejects_a_vocabulary_without_a_mask_token():
    words = Vocabulary(["<unk>", "<s>", "</s>", "<pad>"], unk=0, cls=1, sep=2, pad=3, mask=0)
    with pytest.raises(ToolkitError, match=r"requires a vocabulary with a separate \[MASK\] token"):
        folder = SimpleNamespace(vocabulary=words, name="novels")
        ReplacedTokenExamples(ReplacedTokenConfig(), SplitSource(folder, "train"))
