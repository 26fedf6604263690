from __future__ import annotations

import importlib

import pytest

from toolkit.common.errors import ToolkitError
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
