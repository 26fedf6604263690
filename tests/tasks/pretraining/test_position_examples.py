import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.criteria import IGNORED
from toolkit.data.loading.loader import BatchLoader
from toolkit.data.storage.data_folder import DataFolder
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.pretraining.position_config import MaskedPositionConfig
from toolkit.tasks.pretraining.position_examples import MaskedPositionExamples


@pytest.fixture(scope="module")
def folder(data):
    return DataFolder.open(data)


def make_examples(folder, training=True, row_multiple=1, **options):
    return MaskedPositionExamples(
        MaskedPositionConfig(**options),
        SplitSource(folder, "train", 1, training, row_multiple),
    )


def halves(batch):
    """Tokens and positions of both halves."""
    rows = batch.sentences
    tokens, ids = batch.inputs.tokens, batch.inputs.positions
    return tokens[:rows], tokens[rows:], ids[:rows], ids[rows:]


def test_masked_tokens_have_true_positions_and_true_tokens_masked_ones(folder):
    batch = make_examples(folder).collate(np.arange(12), 1)
    masked, true, in_order, corrupted = halves(batch)
    words = batch.weights["mlm"]
    assert words == len(batch.token_targets) and batch.weights["mpm"] == len(batch.position_targets)
    assert (in_order == torch.arange(in_order.shape[1])).all()
    first, second = batch.selected.split([len(batch.token_targets), len(batch.position_targets)])
    restored = masked.flatten().clone()
    restored[first] = batch.token_targets
    assert torch.equal(restored, true.flatten())
    order = corrupted.flatten().clone()
    order[second - masked.numel()] = batch.position_targets
    assert torch.equal(order.view_as(corrupted), in_order)
    assert (corrupted == -1).any()


@pytest.mark.parametrize("objective", ["mlm", "mpm"])
def test_single_objective_equals_its_half_of_both(folder, objective):
    both = make_examples(folder).collate(np.arange(6), 2)
    alone = make_examples(folder, objectives=objective).collate(np.arange(6), 2)
    masked, true, _, corrupted = halves(both)
    assert torch.equal(alone.inputs.tokens, masked if objective == "mlm" else true)
    if objective == "mpm":
        assert torch.equal(alone.inputs.positions, corrupted)
    else:
        assert alone.inputs.positions is None
    assert alone.weights == {objective: both.weights[objective]}
    assert both.tokens == 2 * alone.tokens


def test_both_halves_have_the_same_padding_and_token_types(folder):
    inputs = make_examples(folder, pair_mode="electra").collate(np.arange(12), 1).inputs
    for part in (inputs.padding, inputs.segments):
        first, second = part.chunk(2)
        assert part.any() and torch.equal(first, second)


@pytest.mark.parametrize(
    "option",
    [
        {"position_rate": 0.4},
        {"position_span_max": 1},
        {"position_span_p": 0.9},
        {"hidden_position_rate": 0.3},
        {"shuffled_position_rate": 0.2},
        {"position_range": "full_table"},
    ],
)
def test_position_options_change_positions_and_no_token(folder, option):
    default, other = (make_examples(folder, **o).collate(np.arange(30), 1) for o in ({}, option))
    assert torch.equal(halves(default)[0], halves(other)[0])
    assert not torch.equal(halves(default)[3], halves(other)[3])


def test_full_table_draws_positions_up_to_max_position(folder):
    options = {"position_span_max": 1, "hidden_position_rate": 0.0, "shuffled_position_rate": 1.0}
    examples = make_examples(folder, position_range="full_table", max_position=1, **options)
    far = halves(examples.collate(np.arange(30), 1))[3][:, 8:]
    assert (far == 0).any() and (far == 1).any()


def test_idle_rank_has_a_batch_of_weight_zero(folder):
    batch = make_examples(folder).collate(np.zeros(0, np.int64), 1)
    assert batch.weights == {"mlm": 0.0, "mpm": 0.0} and (batch.sentences, batch.tokens) == (0, 0)
    assert (batch.token_targets == IGNORED).all() and (batch.position_targets == IGNORED).all()


def test_evaluation_masks_stay_the_same_and_training_masks_change(folder):
    evaluation, training = make_examples(folder, training=False), make_examples(folder)
    ids = np.arange(8)
    assert torch.equal(
        evaluation.collate(ids, 1).inputs.positions, evaluation.collate(ids, 2).inputs.positions
    )
    first, second = training.collate(ids, 1), training.collate(ids, 2)
    assert not torch.equal(first.inputs.positions, second.inputs.positions)


@pytest.mark.parametrize("workers", [0, 1])
def test_workers_mask_the_same_positions(folder, workers):
    loader = BatchLoader(
        make_examples(folder), max_tokens=None, batch_size=8, seed=1, workers=workers, shuffle=True
    )
    try:
        sums = [batch.inputs.positions.sum().item() for [batch] in loader.updates(1)]
    finally:
        loader.close()
    alone = [
        batch.inputs.positions.sum().item()
        for [batch] in BatchLoader(
            make_examples(folder), max_tokens=None, batch_size=8, seed=1, shuffle=True
        ).updates(1)
    ]
    assert sums == alone


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"objectives": "mlm,order"},
            "task.objectives must be mlm, mpm or mlm,mpm, but is 'mlm,order'",
        ),
        ({"objectives": " "}, "task.objectives must be mlm, mpm or mlm,mpm, but is ' '"),
        ({"position_rate": 0.0}, "task.position_rate must be above 0 and below 1, but is 0.0"),
        ({"position_span_max": 0}, "task.position_span_max must be at least 1, but is 0"),
        ({"shuffled_position_rate": 0.3}, "sum to at most 1, but are 0.8 and 0.3"),
        ({"position_range": "page"}, "must be one of sentence, full_table, but is 'page'"),
    ],
)
def test_mpm_config_rejects_options_out_of_range(options, message):
    with pytest.raises(ToolkitError, match=message):
        MaskedPositionConfig(**options)
