"""Scores compared with loops over sentences and tokens, one forward pass each, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs
from toolkit.optim.update import Precision
from toolkit.tasks.completions.scorer import TextScorer, find_word_ends, word_ends

SENTENCES = [
    "The cats saw how dogs hug.",
    "The cats saw how dogs hugs.",
    "a rat ran, far",
    "A rat ran",
    "The cats saw how dogs hug.",
    "matted",
]
MODELS = [
    ("bert_tiny", "mpm", {"hidden_position_embedding": True, "layers": 1}),
    ("convbert_tiny", "mlm", {"layers": 1}),
    ("taco_tiny", "mpm", {"layers": 1}),
]


def make_scorer(learner, scoring="auto", max_tokens=60):
    precision = Precision("fp32", torch.device("cpu"))
    return TextScorer(learner, scoring, precision=precision, max_tokens=max_tokens)


def score(learner, scoring="auto", sentences=SENTENCES, **options):
    scorer = make_scorer(learner, scoring, **options)
    return scorer.score(scorer.encode(sentences))[0]


def masked_log_probability(learner, row, position, target):
    states = learner.encoder(Inputs(torch.tensor([row]))).states[0, position : position + 1]
    logits = learner.task.head(states, learner.encoder.token_embedding.weight)
    return float(logits[0].log_softmax(-1)[target])


@torch.no_grad()
def loop(learner, sentence, hidden_after):
    """The pseudo-log-likelihood; `hidden_after(t)` are the tokens that are masked with token t."""
    vocabulary = learner.tokenizer.vocabulary
    ids, total = learner.tokenizer.encode(sentence), 0.0
    for t, target in enumerate(ids):
        row = [vocabulary.cls, *ids, vocabulary.sep]
        for other in (t, *hidden_after(t)):
            row[1 + other] = vocabulary.mask
        total += masked_log_probability(learner, row, 1 + t, target)
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "task", "options"), MODELS)
def test_pseudo_log_likelihood_equals_a_loop_that_masks_one_token_at_a_time(
    make_learner, arch, task, options
):
    learner = make_learner(arch, task, **options).double()
    expected = [loop(learner, sentence, lambda t: ()) for sentence in SENTENCES]
    np.testing.assert_allclose(score(learner), expected, atol=1e-9)
    assert np.std(expected) > 1, "else little is compared"


@torch.no_grad()
def test_left_to_right_equals_a_loop_with_three_masks_after_each_token(make_learner):
    learner = make_learner("bert_tiny", "mlm", layers=1, max_positions=30).double()
    cls, sep, mask = (getattr(learner.tokenizer.vocabulary, it) for it in ("cls", "sep", "mask"))
    for sentence, found in zip(SENTENCES, score(learner, "left_to_right"), strict=True):
        ids, total = learner.tokenizer.encode(sentence), 0.0
        for t, target in enumerate(ids):
            total += masked_log_probability(
                learner, [cls, *ids[:t], *[mask] * 3, sep], 1 + t, target
            )
        assert found == pytest.approx(total, abs=1e-9)
    assert make_scorer(learner, "left_to_right").max_length == 30 - 2 - 2
    causal = make_learner(*LM)
    assert score(causal, "left_to_right") == pytest.approx(score(causal))


@pytest.mark.parametrize(
    ("arch", "task", "options"),
    [
        ("composite_bert_tiny", "mlm", {"layers": 1, "width": 16}),
        ("transformer_lm_tiny", "language_modeling", {}),
    ],
)
def test_scores_do_not_depend_on_other_sentences_and_batches(make_learner, arch, task, options):
    learner = make_learner(arch, task, **options)
    expected = score(learner)
    alone = [score(learner, sentences=[sentence])[0] for sentence in SENTENCES]
    np.testing.assert_allclose(alone, expected, atol=1e-4)
    np.testing.assert_allclose(score(learner, max_tokens=7), expected, atol=1e-4)
    np.testing.assert_allclose(score(learner, sentences=SENTENCES[::-1]), expected[::-1], atol=1e-4)


def test_each_masked_input_is_computed_once(make_learner, monkeypatch):
    learner, seen = make_learner("bert_tiny"), []
    compute = learner.task.score_targets

    def record(encoder, inputs, selected, targets):
        seen.extend(map(tuple, inputs.tokens.tolist()))
        return compute(encoder, inputs, selected, targets)

    monkeypatch.setattr(learner.task, "score_targets", record)
    good, bad = "a cat sat", "a dogs sat"
    score(learner, sentences=[good, bad, good])
    tokens = len(learner.tokenizer.encode(good))
    assert len(seen) == len(set(seen)) and len(learner.tokenizer.encode(bad)) == tokens
    assert len(seen) == 2 * tokens - 1, "they share the input in which cat and dogs are masked"


def test_inputs_have_no_padding_and_fill_batches_by_length(make_learner, monkeypatch):
    learner, shapes = make_learner("bert_tiny"), []
    compute = learner.task.score_targets

    def record(encoder, inputs, selected, targets):
        assert inputs.padding is None
        shapes.append(tuple(inputs.tokens.shape))
        return compute(encoder, inputs, selected, targets)

    monkeypatch.setattr(learner.task, "score_targets", record)
    score(learner, max_tokens=40)
    assert all(rows * length <= 40 for rows, length in shapes)
    lengths = [length for _, length in shapes]
    assert lengths == sorted(lengths)


@torch.no_grad()
@pytest.mark.parametrize(
    ("arch", "task"),
    [
        ("bert_tiny", "mlm"),
        ("deberta_tiny", "mlm"),
        ("composite_bert_tiny", "mlm"),
        ("transformer_lm_tiny", "language_modeling"),
        ("transformer_tiny", "translation"),
    ],
)
def test_options_after_a_prefix_equal_a_loop_over_their_tokens(make_learner, arch, task):
    learner = make_learner(arch, task).double()
    scorer, prefix, option = make_scorer(learner), "The cats saw how", "matted dogs hug"
    found, misses = scorer.score(scorer.encode([f"{prefix} {option}"], [option]))
    vocabulary, total, best = learner.tokenizer.vocabulary, 0.0, 0
    before, ids = learner.tokenizer.encode(prefix), learner.tokenizer.encode(option)
    for t, target in enumerate(ids):
        if task == "translation":
            read = learner.encoder(Inputs(torch.tensor([[*before, vocabulary.sep]])))
            previous = torch.tensor([[vocabulary.sep, *ids[:t]]])
            states = learner.encoder.decode(previous, read, None)[0]
            logits = learner.encoder.scores(states.reshape(-1, states.shape[-1])[-1:])
        elif task == "language_modeling":
            row = torch.tensor([[vocabulary.sep, *before, *ids[:t]]])
            logits = learner.encoder.scores(learner.encoder(Inputs(row)).states[0, -1:])
        else:
            row = [vocabulary.cls, *before, *ids, vocabulary.sep]
            row[1 + len(before) + t] = vocabulary.mask
            states = learner.encoder(Inputs(torch.tensor([row]))).states[0]
            place = 1 + len(before) + t
            logits = learner.task.head(
                states[place : place + 1], learner.encoder.token_embedding.weight
            )
        total += float(logits[0].log_softmax(-1)[target])
        best += int(logits[0].argmax() == target)
    assert found[0] == pytest.approx(total, abs=1e-5) and total < -1
    assert misses[0] == len(ids) - best


@pytest.mark.parametrize(
    ("arch", "task"),
    [("transformer_lm_tiny", "language_modeling"), ("transformer_tiny", "translation")],
)
def test_a_prefix_that_options_share_is_read_once(make_learner, monkeypatch, arch, task):
    learner, read = make_learner(arch, task), []
    scorer = make_scorer(learner, max_tokens=400)
    compute = learner.task.continue_states

    def record(encoder, source, *others):
        read.append(source.numel())
        return compute(encoder, source, *others)

    monkeypatch.setattr(learner.task, "continue_states", record)
    options = ["sat on a mat", "ran", "hugs dogs", "saw how dogs hug"]
    prefix = "the cats and a rat"
    texts = scorer.encode([f"{prefix} {option}" for option in options], options)
    together = scorer.score(texts)
    assert read == [len(learner.tokenizer.encode(prefix)) + scorer.translates]
    alone = np.concatenate([scorer.score([text]) for text in texts], 1)
    np.testing.assert_allclose(together, alone, atol=1e-4)


@pytest.mark.parametrize(
    ("arch", "task"),
    [("transformer_lm_tiny", "language_modeling"), ("transformer_tiny", "translation")],
)
def test_one_option_after_two_prefixes_is_scored_after_each(make_learner, arch, task):
    scorer = make_scorer(make_learner(arch, task))
    texts = scorer.encode(["the rats cat ran", "a dog cat ran"], ["ran", "ran"])
    together = scorer.score(texts)[0]
    alone = [scorer.score([text])[0, 0] for text in texts]
    np.testing.assert_allclose(together, alone, atol=1e-4)
    assert abs(alone[0] - alone[1]) > 1e-3


def test_a_token_that_begins_with_the_space_before_an_option_is_scored(byte_pieces, make_learner):
    learner = make_learner("bert_tiny", tokenizer=byte_pieces)
    symbols = learner.tokenizer.vocabulary.symbols
    for option in ("that", "hat"):  # so is one that begins within the prefix
        (text,) = make_scorer(learner).encode(["a that"], [option])
        assert [symbols[it] for it in text.tokens[text.first :].tolist()] == ["Ġth", "a", "t"]


LM = ("transformer_lm_tiny", "language_modeling")


@pytest.mark.parametrize(
    ("arch", "task", "scoring", "message"),
    [
        ("bert_tiny", "rtd", "auto", r"mlm, .* or language_modeling; .* trained with rtd\.$"),
        (
            "bert_tiny",
            "mlm",
            "log_likelihood",
            r"one of pseudo_log_likelihood, .* but is 'log_likelih",
        ),
        (*LM, "pseudo_log_likelihood", r"scoring must be log_likelihood for a model trained with"),
    ],
)
def test_models_without_the_scoring_are_rejected(make_learner, arch, task, scoring, message):
    with pytest.raises(ToolkitError, match=message):
        make_scorer(make_learner(arch, task), scoring)


def test_mpm_without_masked_tokens_is_rejected(make_learner):
    options = {"task_options": {"objectives": "mpm"}, "hidden_position_embedding": True}
    with pytest.raises(ToolkitError, match=r"Predicting tokens requires .* --task.objectives mlm"):
        score(make_learner("bert_tiny", "mpm", **options))


SENTENCE = "The café's  don't (x) re-enter 1,000!"
WORDS = [
    *("The", "café", "'", "s", "don", "'", "t", "(", "x", ")"),
    *("re", "-", "enter"),
    "1",
    ",",
    "000",
    "!",
]
TEXTS = ["the cat sat on a mat and entered", " ".join(SENTENCE), "how dogs run far"] * 4


def words_of(tokenizer):
    """The text of each word, put together from its tokens' characters."""
    offsets = tokenizer.encode_with_offsets([SENTENCE])
    (ends,) = find_word_ends(tokenizer, [SENTENCE])
    assert ends.tolist() == sorted(ends.tolist()) and len(ends) == len(offsets.ids)
    first = [0, *sorted(set(ends.tolist()))[:-1]]
    spans = [(offsets.starts[a], offsets.ends[ends[a] - 1]) for a in first]
    return [SENTENCE[start:end] for start, end in spans if start < end]  # a space covers nothing


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("kind", ["sentencepiece", "wordpiece"])
def test_words_are_runs_of_letters_and_digits_for_each_kind_of_pieces(kind, lowercase):
    tokenizer = Tokenizer.train(TEXTS, kind=kind, vocabulary_size=70, lowercase=lowercase)
    assert len(tokenizer.encode(SENTENCE)) > len(WORDS), "else no word has several tokens"
    assert words_of(tokenizer) == WORDS


def test_tokens_of_byte_level_pieces_share_a_word_even_within_a_character(byte_pieces):
    assert len(byte_pieces.encode("é")) == 2
    assert words_of(byte_pieces) == WORDS


@pytest.mark.parametrize(
    ("sentence", "spans", "ends"),
    [
        ("a xy", [(0, 1), (2, 2), (2, 3), (3, 4)], [1, 4, 4, 4]),  # a mark alone begins a word
        ("aéb", [(0, 1), (1, 2), (1, 2), (2, 3)], [4, 4, 4, 4]),  # two bytes of one character
        ("—b", [(0, 1), (0, 1), (1, 2)], [2, 2, 3]),
        ("a--", [(0, 1), (1, 2), (2, 3)], [1, 2, 3]),
        ("ab ab", [(0, 2), (3, 5)], [1, 2]),
        ("我爱你", [(0, 1), (1, 2), (2, 3)], [1, 2, 3]),  # each Chinese character is a word
        ("ไปกิน", [(0, 1), (1, 3), (3, 4), (4, 5)], [1, 3, 3, 4]),  # so is each Thai letter
        ("コピー機", [(0, 1), (1, 3), (3, 4)], [2, 2, 3]),  # and a run of katakana
        ("किताब है", [(0, 1), (1, 2), (2, 5), (6, 8)], [3, 3, 3, 4]),  # a vowel sign joins
        ("cafe\u0301s", [(0, 4), (4, 5), (5, 6)], [3, 3, 3]),
    ],
)
def test_words_follow_from_the_characters_of_tokens(sentence, spans, ends):
    assert word_ends(spans, sentence).tolist() == ends
