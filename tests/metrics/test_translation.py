from __future__ import annotations

import importlib
import math
import random
import string

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.metrics.translation import (
    ALL_METRICS,
    best_scores,
    best_threshold,
    corpus_scores,
    exact_match,
    word_f1,
)

SAID = ["the cat sat on the mat", "a dog barks loudly at night"]


def test_bleu_follows_its_definition_over_the_corpus():
    said = ["the cat sat on a mat", "a dog barks loudly"]
    precisions = (9 / 10, 6 / 8, 4 / 6, 2 / 4)  # of 1 to 4 words in a row, over both sentences
    brevity = 2.718281828 ** (1 - 12 / 10)
    wanted = brevity * (precisions[0] * precisions[1] * precisions[2] * precisions[3]) ** 0.25
    [bleu] = corpus_scores(said, SAID, names=["bleu"])
    assert bleu.value == pytest.approx(100 * wanted)
    assert "tok:13a" in bleu.signature and "case:mixed" in bleu.signature


def test_pieces_of_words_are_joined_before_they_are_scored():
    hypotheses, references = ["the ca@@ t sat on it", "on@@ ce"], ["the cat sat on it", "on@@ ce"]
    assert [round(it.value, 6) for it in corpus_scores(hypotheses, references)] == [100, 100]


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


CHINESE = ["我是一只猫。", "今天天气很好，我们去公园。"]  # noqa: RUF001


@pytest.mark.parametrize("code", ["zh", "zh_CN", "zho_Hans"])
def test_bleu_of_chinese_is_that_of_sacrebleu_for_the_language(code):
    said = ["我是一只狗。", "今天天气好，我们去公园。"]  # noqa: RUF001
    theirs = importlib.import_module("sacrebleu.metrics").BLEU(trg_lang="zh")
    [bleu] = corpus_scores(said, CHINESE, names=["bleu"], language=code)
    assert bleu.value == theirs.corpus_score(said, [CHINESE]).score > 50
    assert "tok:zh" in bleu.signature
    [plain] = corpus_scores(said, CHINESE, names=["bleu"], language=code, tokenize="13a")
    assert plain.value < bleu.value and "tok:13a" in plain.signature


def test_bleu_is_that_of_characters_if_the_tokenizer_of_words_is_missing(monkeypatch, caplog):
    module = importlib.import_module("sacrebleu.metrics.bleu")

    def missing(name):
        raise RuntimeError("Japanese tokenization requires extra dependencies")

    get = module._get_tokenizer
    monkeypatch.setattr(
        module, "_get_tokenizer", lambda name: missing(name) if "mecab" in name else get(name)
    )
    [bleu] = corpus_scores(CHINESE, CHINESE, names=["bleu"], language="ja")
    assert bleu.value == pytest.approx(100) and "tok:char" in bleu.signature
    assert "for words, run pip install 'sacrebleu[ja]'" in caplog.text
    with pytest.raises(ToolkitError, match=r"ja-mecab needs .* Run pip install 'sacrebleu\[ja\]'"):
        corpus_scores(CHINESE, CHINESE, names=["bleu"], tokenize="ja-mecab")


EDGES = ["", " ", "the", "The a An", "...", "a.b", "U.S.A.", "an apple", "Apple!", "the  Apple\n"]
EDGES += ["\u00c9cole", "theory", "x\u00a0y", "the\u2014cat", "1,000", "1000", "a-b", "cat cat dog"]


def official_words(text):
    """The published rules, one letter and one word at a time."""
    kept = ""
    for letter in text.lower():
        if letter not in set(string.punctuation):
            kept += letter
    words, word = [], ""
    for letter in kept + " ":  # articles stand between letters that are none of a word
        if letter.isalnum() or letter == "_":
            word += letter
            continue
        words.append("" if word in ("a", "an", "the") else word)
        words.append(letter)
        word = ""
    return "".join(w if w else " " for w in words).split()


def official_f1(given, right, version):
    a, b = official_words(given), official_words(right)
    if version == 2 and (len(a) == 0 or len(b) == 0):
        return float(a == b)
    left, same = list(b), 0
    for word in a:
        if word in left:
            left.remove(word)
            same += 1
    if same == 0:
        return 0.0
    precision, recall = 1.0 * same / len(a), 1.0 * same / len(b)
    return (2 * precision * recall) / (precision + recall)


def phrases():
    draw = random.Random(3)
    words = [
        "a",
        "the",
        "The",
        "cat",
        "cat.",
        "(dog)",
        "an",
        "two-fold",
        "Caf\u00e9",
        "",
        "'s",
        "\u2013",
    ]
    return [" ".join(draw.choices(words, k=draw.randrange(6))) for _ in range(30)] + EDGES


@pytest.mark.parametrize("version", [1, 2])
def test_squad_metrics_follow_the_official_rules(version):
    every = phrases()
    for given in every:
        for right in every:
            found = word_f1(given, right, none_allowed=version == 2)
            assert abs(found - official_f1(given, right, version)) < 1e-12
            assert exact_match(given, right) == float(
                official_words(given) == official_words(right)
            )


def test_best_scores_take_the_best_reference():
    found = best_scores("Anna Bell", ["Bob", "the Anna", "anna bell."], none_allowed=False)
    assert found == (1.0, 1.0)
    exactness, overlap = best_scores("Anna Bell", ["Bob", "the Anna"], none_allowed=False)
    assert exactness == 0 and overlap == pytest.approx(2 / 3, abs=1e-12)


def test_best_scores_without_references_reward_no_answer():
    assert best_scores("", [], none_allowed=True) == (1.0, 1.0)
    assert best_scores("Anna", ["the", ""], none_allowed=True) == (0.0, 0.0)
    assert best_scores("", ["Anna"], none_allowed=True) == (0.0, 0.0)
    assert math.isnan(best_scores("Anna", [], none_allowed=False)[0])


def tried(doubts, scores, none):
    """Every threshold, one after the other."""
    possible = [min(doubts) - 1, *sorted(set(doubts))]
    means = [np.mean([n if d > t else s for d, s, n in zip(doubts, scores, none, strict=True)])
             for t in possible]  # fmt: skip
    return possible[int(np.argmax(means))], max(means)


@pytest.mark.parametrize("seed", range(6))
def test_best_threshold_is_optimal(seed):
    draw = np.random.default_rng(seed)
    doubts = draw.integers(-3, 4, 12).astype(float) if seed % 2 else draw.normal(size=12)
    has = draw.random(12) < 0.5
    scores, none = np.where(has, draw.random(12).round(1), 0.0), np.where(has, 0.0, 1.0)
    threshold, mean = best_threshold(doubts, scores, none)
    wanted, best = tried(doubts.tolist(), scores, none)
    assert mean == pytest.approx(best, abs=1e-12)
    assert threshold == wanted or (wanted == doubts.min() - 1 and threshold < doubts.min())
    assert np.where(doubts > threshold, none, scores).mean() == pytest.approx(best, abs=1e-12)
