from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from toolkit.data.formats.parallel.split import ParallelSplit
from toolkit.data.storage.data_folder import DataFolder
from toolkit.distributed import World
from toolkit.models.encoder_decoder import GenerativeModel
from toolkit.models.interface import Inputs
from toolkit.tasks.examples import SplitSource
from toolkit.tasks.translation import predictions
from toolkit.tasks.translation.config import TranslationConfig
from toolkit.tasks.translation.examples import TranslationExamples
from toolkit.tasks.translation.predictions import TranslationCollector


class Backwards(GenerativeModel):
    """Generates the source backwards, which is the reference."""

    def decode(self, previous, encoded=None, padding=None, cache=None, selected=None):
        raise NotImplementedError

    def forward(self, inputs, selected=None):
        raise NotImplementedError


@pytest.fixture
def split(parallel):
    return ParallelSplit(DataFolder.open(parallel), "valid")


@pytest.fixture
def asked(split, monkeypatch):
    """Shows batches to answers whose model is perfect; gives the answers, and what bounds it."""
    bounds = []

    def best(model, inputs, words, *, beam, max_length):
        assert beam == 3
        bounds.extend(max_length)
        special = torch.tensor(words.special)
        return [row[~torch.isin(row, special)].flip(0).tolist() for row in inputs.tokens]

    monkeypatch.setattr(predictions, "generate_best", best)
    examples = TranslationExamples(TranslationConfig(), SplitSource(split.folder, split.name))

    def ask(*batches):
        answers = TranslationCollector(split, beam=3)
        for rows in batches:
            answers.update_from_encoder(
                Backwards(), examples.collate(np.array(rows, np.int64), None)
            )
        answers.sync(World())
        return answers, bounds

    return ask


def test_perfect_translations_have_the_highest_scores(asked, split):
    answers, bounds = asked([4, 2, 0], [], [8, 1, 3], [5, 6, 7])
    assert answers.compute() == pytest.approx({"bleu": 100.0, "chrf": 100.0})
    longest = split.source.lengths[[4, 2, 0]] + 1
    assert bounds[:3] == (2 * longest + 20).tolist()


def test_blank_sources_have_empty_translations_as_in_generation(split, monkeypatch):
    end, pad = split.tokenizer.vocabulary.sep, split.tokenizer.vocabulary.pad
    word = split.tokenizer.encode("dogs")
    monkeypatch.setattr(predictions, "generate_best", lambda *_, **options: [word, word])
    tokens = torch.tensor([[*word, end], [end, pad]])
    examples = TranslationExamples(TranslationConfig(), SplitSource(split.folder, split.name))
    batch = examples.collate(np.array([0, 1]), None)
    answers = TranslationCollector(split, beam=1)
    answers.update_from_encoder(
        Backwards(), batch._replace(inputs=Inputs(tokens, padding=tokens == pad))
    )
    assert answers.translations == {0: "dogs", 1: ""}


def test_translations_are_written_in_order(asked, split, tmp_path):
    answers, _ = asked([4, 2, 0], [8, 1, 3], [5, 6, 7])
    answers.write(tmp_path / "said")
    assert (tmp_path / "said").read_text().splitlines() == split.references(np.arange(9))


def test_translations_are_single_lines_whatever_they_contain(split, tmp_path):
    answers = TranslationCollector(split, beam=1)
    answers.translations = {0: "a\nb", 1: "c"}
    answers.write(tmp_path / "said")
    assert (tmp_path / "said").read_text() == "a b\nc\n"


def test_signatures_are_in_tables_and_events(asked):
    answers, _ = asked([0, 1], [2, 3])
    [table] = answers.tables()
    assert "tok:13a" in table.text()
    assert [(kind, it["name"]) for kind, it in answers.events()] == [
        ("score", "bleu"),
        ("score", "chrf"),
    ]


def test_scores_are_empty_if_the_model_could_not_translate(split):
    answers = TranslationCollector(split, beam=1)
    answers.sync(World())
    assert answers.compute() == {} and answers.tables() == [] == answers.events()


def test_scores_ignore_case_if_the_vocabulary_is_lowercased(asked, split, monkeypatch):
    plain = split.references
    monkeypatch.setattr(split, "references", lambda rows: [it.upper() for it in plain(rows)])
    monkeypatch.setattr(split.tokenizer.target, "lowercase", True)
    answers, _ = asked([0, 1], [2, 3])
    assert answers.compute() == pytest.approx({"bleu": 100.0, "chrf": 100.0})
    assert "case:lc" in answers.tables()[0].text()


def test_sync_gathers_the_translations_of_all_ranks(asked, split, monkeypatch):
    halves = [asked(rows)[0] for rows in ([4, 2, 0, 8], [1, 3, 5, 6, 7])]
    said = [json.dumps(list(half.translations.items())) for half in halves]
    monkeypatch.setattr(World, "all_gather", lambda world, text: said)
    halves[0].sync(World(size=2))
    assert halves[0].scores[0].value == pytest.approx(100.0)
    assert sorted(halves[0].translations) == list(range(9))
