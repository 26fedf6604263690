from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from toolkit.data.formats.parallel.files import ParallelSplit
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Inputs
from toolkit.tasks import translation
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.translation import TranslationConfig, TranslationExamples, TranslationResults


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


def test_translations_are_single_lines_whatever_they_contain(examples, tmp_path):
    results = TranslationResults(examples, beam=1)
    results.translations = {0: "a\nb", 1: "c"}
    results.write(tmp_path / "translations.txt")
    assert (tmp_path / "translations.txt").read_text() == "a b\nc\n"


def test_signatures_are_in_tables_and_events(translate):
    results, _ = translate([0, 1], [2, 3])
    [table] = results.tables()
    assert "tok:13a" in table.text()
    assert [(kind, it["name"]) for kind, it in results.events()] == [
        ("score", "bleu"),
        ("score", "chrf"),
    ]


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
