from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.criteria import IGNORED
from toolkit.data.loading.batching import BatchPlanner
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder
from toolkit.models.interface import Inputs, Sizes
from toolkit.models.packing import pack_padding
from toolkit.tasks.examples import SplitSource, TargetBatch
from toolkit.tasks.pretraining.mlm import FillableMaskedExamples, MaskedExamples, MaskingConfig
from toolkit.tasks.task import EncoderFactory

SIZES = Sizes(tokens=12)


def build(sizes=SIZES, **options):
    torch.manual_seed(0)
    entry, task = ARCHITECTURES["composite_bert_tiny"], TASKS["mlm"]
    config = dataclasses.replace(entry.config, width=16, layers=1, embedding_width=8, **options)
    encoder = entry.factory(config, sizes).eval()
    return encoder, task.factory(task.config, encoder, EncoderFactory(None, sizes))


def batch(selected: list[int], targets: list[int]) -> TargetBatch:
    tokens = torch.randint(12, (2, 5), generator=torch.Generator().manual_seed(1))
    return TargetBatch(
        Inputs(tokens=tokens), torch.tensor(selected), torch.tensor(targets), {"mlm": 3.0}, 2, 10
    )


def test_mlm_head_reads_the_selected_positions_and_the_embedding_table():
    encoder, task = build()
    b = batch([7, 0], [3, 4])
    logits, targets = task.predict(encoder, b)["mlm"]
    head, states = task.head, encoder(b.inputs).states
    for row, state in enumerate((states[1, 2], states[0, 0])):
        inner = head.norm(torch.nn.functional.gelu(head.transform(state)))
        torch.testing.assert_close(logits[row], encoder.token_embedding.weight @ inner + head.bias)
    assert targets.tolist() == [3, 4]


def test_embedding_table_is_tied_by_use_and_registered_once():
    encoder, task = build()
    table = encoder.token_embedding.weight
    assert not any(parameter is table for parameter in task.parameters())
    task.predict(encoder, batch([7], [3]))["mlm"].logits.sum().backward()
    unseen = [i for i in range(12) if i not in batch([7], [3]).inputs.tokens]
    assert table.grad[unseen].abs().sum() > 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("masked")
    draw = np.random.default_rng(0)
    words = ["the", "a", "small", "old", "red", "house", "river", "saw", "took", "under", "near"]
    lines = [" ".join(draw.choice(words, draw.integers(1, 12))) for _ in range(400)]
    (path / "text").write_text("\n".join(lines))
    preprocess(
        preprocess_config(
            trainpref=str(path / "text"), destdir=str(path / "data"), vocab_size=60, workers=1
        )
    )
    return DataFolder.open(path / "data")


def make_examples(folder, seed=1, training=True, row_multiple=1, **options):
    return MaskedExamples(
        MaskingConfig(**options), SplitSource(folder, "train", seed, training, row_multiple)
    )


def test_targets_restore_the_original_text(folder):
    examples = make_examples(folder)
    batch = examples.collate(np.arange(20), 1)
    tokens = batch.inputs.tokens.flatten().clone()
    tokens[batch.selected] = batch.targets
    first = folder.tokenizer.decode(tokens[: examples.lengths[0]].tolist())
    text = (folder.path.parent / "text").read_text().split("\n")
    assert first == f"[CLS] {text[0]} [SEP] {text[1]} [SEP]"


def test_batch_reports_its_sentences_tokens_and_weights(folder):
    examples = make_examples(folder)
    batch = examples.collate(np.arange(20), 1)
    assert batch.weights == {"mlm": len(batch.targets)}
    assert (batch.sentences, batch.tokens) == (20, int(examples.lengths[:20].sum()))
    assert batch.inputs.tokens.shape == (20, examples.lengths[:20].max())
    assert (~batch.inputs.padding).sum(1).tolist() == examples.lengths[:20].tolist()
    assert batch.inputs.segments is None
    assert batch.inputs.positions is None


@pytest.mark.parametrize("pair_mode", ["chang", "electra"])
def test_filled_batches_have_one_shape_and_the_loss_of_their_sentences(folder, pair_mode):
    source = SplitSource(folder, "train", 1, True, row_multiple=8)
    config = MaskingConfig(pair_mode=pair_mode, tokens_per_sample=24)
    examples = FillableMaskedExamples(config, source)
    planner = BatchPlanner(
        examples.lengths, max_tokens=201, batch_size=None, seed=1, fingerprint="", fills=True
    )
    encoder, task = build(Sizes(tokens=len(folder.vocabulary)), token_types=2)
    plan, shapes = planner.epoch(1), set()
    for ids in (*map(plan.batch, range(len(plan))), np.zeros(0, np.int64)):
        plain = examples.collate(ids, 1)
        filled = examples.fill(plain, planner.shape)
        packing = pack_padding(filled.inputs.padding)
        leaves = tree_leaves((filled.inputs, filled.selected, filled.targets, packing))
        shapes.add(tuple(it.shape if isinstance(it, torch.Tensor) else it for it in leaves))
        assert packing.tokens == 201 and filled[3:] == plain[3:]
        one, other = (task.predict(encoder, batch)["mlm"] for batch in (plain, filled))
        torch.testing.assert_close(other.logits[: len(one.logits)], one.logits)
        assert other.targets.tolist()[: len(one.targets)] == one.targets.tolist()
        assert set(other.targets.tolist()[len(one.targets) :]) <= {IGNORED}
    assert len(shapes) == 1


def test_electra_pairs_are_two_segments_with_token_types(folder):
    examples = make_examples(folder, pair_mode="electra", tokens_per_sample=32)
    batch = examples.collate(np.arange(20), 1)
    tokens = batch.inputs.tokens.flatten().clone()
    tokens[batch.selected] = batch.targets
    tokens = tokens.view(batch.inputs.tokens.shape)
    assert batch.inputs.segments.shape == tokens.shape
    words = folder.vocabulary
    for row, types in zip(tokens, batch.inputs.segments, strict=True):
        first = (row == words.sep).nonzero()[0].item()
        expected_types = [
            int(position > first and row[position] != words.pad) for position in range(len(row))
        ]
        assert types.tolist() == expected_types
    assert batch.inputs.segments.sum() > 0


def test_training_masks_change_with_the_epoch_and_evaluation_masks_do_not(folder):
    ids = np.arange(30)
    training, evaluation = make_examples(folder), make_examples(folder, training=False)
    assert not torch.equal(training.collate(ids, 1).selected, training.collate(ids, 2).selected)
    assert torch.equal(evaluation.collate(ids, 1).selected, evaluation.collate(ids, None).selected)


def test_electra_masking_has_separate_default_rates(folder):
    def mask_token_share(**options):
        batch = make_examples(folder, masking="electra", **options).collate(np.arange(200), 1)
        input_tokens = batch.inputs.tokens.flatten()[batch.selected]
        return (input_tokens == folder.vocabulary.mask).float().mean().item()

    assert mask_token_share() == pytest.approx(0.86, abs=0.05)
    assert mask_token_share(mask_token_rate=0.0) == 0


@pytest.mark.parametrize("masking, alike", [("frequency", "exact"), ("pmi", "whole_word")])
def test_validation_masks_do_not_know_the_training_text(folder, masking, alike):
    def select(name, training):
        examples = make_examples(folder, training=training, masking=name, mask_rate=0.4)
        return examples.collate(np.arange(len(examples)), 1 if training else None).selected.tolist()

    assert select(masking, False) == select(alike, False)
    assert select(masking, True) != select(alike, True)


def test_frequency_weighs_tokens_by_a_power_of_their_count(folder):
    tokens = folder.split("train").column("tokens").read_all().tolist()
    weights = make_examples(folder, masking="frequency", frequency_power=0.7)._masking.weights
    for token, weight in enumerate(weights.tolist()):
        assert weight == pytest.approx(max(1, tokens.count(token)) ** -0.7, rel=1e-12)
