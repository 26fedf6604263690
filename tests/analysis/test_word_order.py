import numpy as np
import pytest
import torch
from scipy import stats

from toolkit import build_model
from toolkit.analysis.word_order import (
    SentenceSample,
    compare_with_original,
    measure_word_order,
    select_words,
    shuffle_words,
)
from toolkit.data.formats.text import encode_raw_texts
from toolkit.data.samples.masking import HashNoise
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs

TEXTS = [
    "the cat sat on a mat and saw how the dogs run far from it",
    "unbelievable dogs saw the mat",
    "far",
    "how a cat and a dog run on the mat the cat sat on before it saw",
] * 6
WITHOUT_POSITIONS = {"fixed": False, "dynamic": False}


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, vocabulary_size=45)


@pytest.fixture(scope="module")
def sampled(tokenizer):
    """A learner in float64 and the texts as it reads them."""

    def make(arch, task="mlm", *, limit=24, length=24, **options):
        torch.manual_seed(1)
        learner = build_model(arch, tokenizer=tokenizer, task=task, layers=1, **options)
        learner.double().eval()
        for parameter in learner.parameters():
            parameter.data.normal_(std=0.3)
        column = TokenColumn(
            encode_raw_texts(tokenizer, TEXTS, None).split("items").column("tokens")
        )
        return learner, SentenceSample(learner, column, limit=limit, length=length)

    return make


def increases(learner, sample, shuffles=2):
    return [it.increase for it in measure_word_order(learner, sample, shuffles=shuffles)]


@pytest.mark.parametrize(
    ("arch", "options"),
    [("composite_bert_tiny", WITHOUT_POSITIONS), ("bert_tiny", {"positions": ["none"]})],
)
def test_model_without_positions_loses_nothing(sampled, arch, options):
    found = increases(*sampled(arch, **options))
    assert np.abs(found).max() < 1e-14


@pytest.mark.parametrize(
    ("arch", "options"),
    [
        ("composite_bert_tiny", {}),
        ("composite_bert_tiny", {**WITHOUT_POSITIONS, "absolute_positions": True}),
        ("composite_bert_tiny", {**WITHOUT_POSITIONS, "depthwise": True}),
        ("bert_tiny", {}),
        ("convbert_tiny", {}),
        ("taco_tiny", {}),
    ],
)
def test_model_with_positions_changes_its_loss(sampled, arch, options):
    original, *shuffled = increases(*sampled(arch, **options))
    assert original == 0 and np.abs(shuffled).min() > 1e-6


def naive_predictions(learner, sample, window, shuffle):
    """-log p of each masked token and whether it is the best, sentence by sentence."""
    found, table = [], learner.encoder.token_embedding.weight
    for index, number in enumerate(sample.ids):
        sentence, ids = sample.read(np.array([index])), np.array([number])
        chosen = select_words(sentence, 0.15, HashNoise(0, None, ids))[0]
        order = shuffle_words(sentence.words, window, HashNoise(0, shuffle, ids))[0]
        tokens = [int(sentence.tokens[0, source]) for source in order]
        mask = learner.tokenizer.vocabulary.mask
        visible = [mask if chosen[source] else sentence.tokens[0, source] for source in order]
        states = learner.encoder(Inputs(torch.tensor([visible]))).states[0]
        log_p = learner.task.head(states, table).log_softmax(-1)
        for position, source in enumerate(order):
            if chosen[source]:
                row = log_p[position]
                found.append((-row[tokens[position]].item(), row.argmax() == tokens[position]))
    return np.array(found, np.float64)


@pytest.mark.parametrize(("arch", "task"), [("composite_bert_tiny", "mlm"), ("taco_tiny", "mpm")])
@torch.no_grad()
def test_losses_equal_a_loop_over_sentences(sampled, arch, task):
    learner, sample = sampled(arch, task, limit=7)
    found = measure_word_order(learner, sample, shuffles=2)
    for each in found:
        numbers = [0] if each.window == 1 else [0, 1]
        expected = [naive_predictions(learner, sample, each.window, it) for it in numbers]
        loss, accuracy = np.mean(expected, (0, 1))
        assert each.loss == pytest.approx(loss, abs=1e-12)
        assert each.accuracy == pytest.approx(accuracy) and each.targets == len(expected[0])


@torch.no_grad()
def test_language_model_predicts_every_word_of_the_shuffled_text(sampled):
    learner, sample = sampled("transformer_lm_tiny", "language_modeling")
    found = measure_word_order(learner, sample, shuffles=1)
    total, count = 0.0, 0
    for index, number in enumerate(sample.ids):
        sentence = sample.read(np.array([index]))
        order = shuffle_words(sentence.words, None, HashNoise(0, 0, np.array([number])))[0]
        tokens = torch.from_numpy(sentence.tokens[:, order])
        logits = learner.encoder.scores(learner.encoder(Inputs(tokens)).states[0])
        total -= logits[:-1].log_softmax(-1).gather(1, tokens[0, 1:, None]).sum().item()
        count += tokens.shape[1] - 1
    assert found[-1].targets == count and found[-1].loss == pytest.approx(total / count, abs=1e-12)


def test_sentences_are_cut_and_spread_over_the_text(sampled):
    _, sample = sampled("bert_tiny", limit=6, length=8)
    assert sample.ids.tolist() == [0, 4, 8, 12, 16, 20] and sample.truncated == 6
    assert sample.lengths.tolist() == [8] * 6


def test_measurement_is_repeatable_and_independent_of_the_batches(sampled, monkeypatch):
    learner, sample = sampled("bert_tiny")
    found = increases(learner, sample)
    assert increases(learner, sample) == found
    monkeypatch.setitem(measure_word_order.__globals__, "MAX_TOKENS", {"cpu": 1})
    assert increases(learner, sample) == pytest.approx(found, abs=1e-12)


def test_standard_error_is_that_of_a_mean_if_sentences_are_equally_long():
    random = np.random.default_rng(0)
    losses, shuffled = random.normal(5, 1, (2, 50))
    sums = [np.stack([it, np.ones(50)]) for it in (losses, shuffled)]
    found = compare_with_original(2, sums[1], sums[0], np.full(50, 4.0))
    assert found.increase == pytest.approx((shuffled - losses).mean() / 4)
    assert found.standard_error == pytest.approx(stats.sem((shuffled - losses) / 4))
    assert found.accuracy == 0.25 and found.sentences == 50 and found.targets == 200
