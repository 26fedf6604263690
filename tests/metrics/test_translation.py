from __future__ import annotations

import importlib

import pytest

from toolkit.metrics.translation import ALL_METRICS, corpus_scores

SAID = ["the cat sat on the mat", "a dog barks loudly at night"]


def test_a_perfect_translation_scores_100():
    scores = {score.name: score.value for score in corpus_scores(SAID, SAID, names=ALL_METRICS)}
    assert scores == pytest.approx({"bleu": 100.0, "chrf": 100.0, "ter": 0.0})


def test_bleu_follows_its_definition_over_the_corpus():
    said = ["the cat sat on a mat", "a dog barks loudly"]
    precisions = (9 / 10, 6 / 8, 4 / 6, 2 / 4)  # of 1 to 4 words in a row, over both sentences
    brevity = 2.718281828 ** (1 - 12 / 10)
    wanted = brevity * (precisions[0] * precisions[1] * precisions[2] * precisions[3]) ** 0.25
    [bleu] = corpus_scores(said, SAID, names=["bleu"])
    assert bleu.value == pytest.approx(100 * wanted)
    assert "tok:13a" in bleu.signature and "case:mixed" in bleu.signature


def test_lowercase_scores_say_so_in_the_signature():
    upper = [text.upper() for text in SAID]
    [mixed] = corpus_scores(upper, SAID, names=["bleu"])
    [lower] = corpus_scores(upper, SAID, names=["bleu"], lowercase=True)
    assert mixed.value < 1 and lower.value == pytest.approx(100) and "case:lc" in lower.signature


def test_scores_equal_sacrebleu_with_its_defaults():
    said, names = ["The cat sat on a mat", "a dog barks LOUDLY"], ("BLEU", "CHRF", "TER")
    theirs = [getattr(importlib.import_module("sacrebleu.metrics"), name)() for name in names]
    wanted = [metric.corpus_score(said, [SAID]).score for metric in theirs]
    found = corpus_scores(said, SAID, names=ALL_METRICS)
    assert [score.value for score in found] == wanted
    assert [s.signature for s in found] == [str(metric.get_signature()) for metric in theirs]
