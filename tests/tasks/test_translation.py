from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.parallel import ParallelSplit
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Inputs
from toolkit.tasks import translation
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.translation import TranslationConfig, TranslationExamples, TranslationResults


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
    assert batch.tokens == (source + target + 2).sum() and batch.ids.tolist() == ids.tolist()
    grid = batch.previous.flatten()[batch.selected]
    assert (grid != examples.split.tokenizer.vocabulary.pad).all() and len(grid) == len(
        batch.targets
    )


def test_overlong_pairs_are_reported_skipped_or_truncated(make_examples):
    with pytest.raises(ToolkitError, match=r"at most 6 tokens, .*pair \d+ of train in .* has 8\."):
        make_examples(tokens_per_sample=6)
    with pytest.raises(ToolkitError, match=r"Every pair of train in .* has more than 2 tokens"):
        make_examples(tokens_per_sample=2, overlength="skip")
    source, _ = sides(whole := make_examples())
    skipped = make_examples(tokens_per_sample=6, overlength="skip")
    assert len(skipped.lengths) == (source < 6).sum() < len(whole.lengths)
    assert skipped.remark == f"{(source > 5).sum()} with more than 6 tokens skipped"
    first = np.flatnonzero(source < 6)[:1].tolist()
    assert skipped.collate(np.array([0]), 1).ids.tolist() == first
    truncated = make_examples(tokens_per_sample=6, overlength="truncate")
    assert truncated.lengths.max() == 6 and "truncated" in truncated.remark
    validated = make_examples(tokens_per_sample=4, overlength="skip", training=False)
    assert len(truncated.lengths) == len(whole.lengths) == len(validated.lengths)


class Backwards(GenerativeModel):
    """Generates the source backwards, which is the reference."""

    def __init__(self):
        torch.nn.Module.__init__(self)

    def decode(self, previous, encoded=None, padding=None, cache=None, selected=None):
        raise NotImplementedError

    def forward(self, inputs, selected=None):
        raise NotImplementedError


@pytest.fixture
def split(parallel):
    return ParallelSplit(DataFolder.open(parallel), "valid")


@pytest.fixture
def examples(split):
    return TranslationExamples(TranslationConfig(), SplitSource(split.folder, split.name))


@pytest.fixture
def translate(examples, monkeypatch):
    """Translations by a perfect model, and the maximum lengths that it was given."""
    bounds = []

    def best(model, inputs, words, *, beam, max_length):
        assert beam == 3
        bounds.extend(max_length)
        special = torch.tensor(words.special)
        return [row[~torch.isin(row, special)].flip(0).tolist() for row in inputs.tokens]

    monkeypatch.setattr(translation, "generate_best", best)

    def call(*batches):
        results = TranslationResults(examples, beam=3)
        for rows in batches:
            results.update_from_encoder(
                Backwards(), examples.collate(np.array(rows, np.int64), None)
            )
        results.sync(World())
        return results, bounds

    return call


def test_perfect_translations_have_the_highest_scores(translate, split):
    results, bounds = translate([4, 2, 0], [], [8, 1, 3], [5, 6, 7])
    assert results.metrics() == pytest.approx({"bleu": 100.0, "chrf": 100.0})
    lengths = split.source.lengths[[4, 2, 0]] + 1
    assert bounds[:3] == (2 * lengths + 20).tolist()


def test_blank_sources_have_empty_translations_as_in_generation(split, examples, monkeypatch):
    end, pad = split.tokenizer.vocabulary.sep, split.tokenizer.vocabulary.pad
    word = split.tokenizer.encode("dogs")
    monkeypatch.setattr(translation, "generate_best", lambda *_, **options: [word, word])
    tokens = torch.tensor([[*word, end], [end, pad]])
    batch = examples.collate(np.array([0, 1]), None)
    results = TranslationResults(examples, beam=1)
    results.update_from_encoder(
        Backwards(), batch._replace(inputs=Inputs(tokens, padding=tokens == pad))
    )
    assert results.translations == {0: "dogs", 1: ""}


def test_translations_are_written_in_order(translate, split, tmp_path):
    results, _ = translate([4, 2, 0], [8, 1, 3], [5, 6, 7])
    results.write(tmp_path / "translations.txt")
    assert (tmp_path / "translations.txt").read_text().splitlines() == split.references(
        np.arange(9)
    )


def test_scores_are_empty_if_the_model_could_not_translate(examples):
    results = TranslationResults(examples, beam=1)
    results.sync(World())
    assert results.metrics() == {} and results.tables() == [] == results.events()


def test_scores_ignore_case_if_the_vocabulary_is_lowercased(translate, split, monkeypatch):
    plain = split.references
    monkeypatch.setattr(split, "references", lambda rows: [it.upper() for it in plain(rows)])
    monkeypatch.setattr(split.tokenizer.target, "lowercase", True)
    results, _ = translate([0, 1], [2, 3])
    assert results.metrics() == pytest.approx({"bleu": 100.0, "chrf": 100.0})
    assert "case:lc" in results.tables()[0].text()


def test_sync_gathers_the_translations_of_all_ranks(translate, split, monkeypatch):
    halves = [translate(rows)[0] for rows in ([4, 2, 0, 8], [1, 3, 5, 6, 7])]
    gathered = [json.dumps(list(half.translations.items())) for half in halves]
    monkeypatch.setattr(World, "all_gather", lambda world, text: gathered)
    halves[0].sync(World(size=2))
    assert halves[0].scores[0].value == pytest.approx(100.0)
    assert sorted(halves[0].translations) == list(range(9))
