"""Scores equal direct loops over models of Transformers with the same weights, in float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.models.test_transformer_lm import copy_model
from toolkit import build_model, load_checkpoint
from toolkit.cli.convert import main as convert
from toolkit.config.commands.generate import SurprisalOptions
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.optim.update import Precision
from toolkit.tasks.completions.items import read_sets
from toolkit.tasks.completions.scorer import TextScorer
from toolkit.tasks.completions.surprisal import SurprisalReader

transformers = pytest.importorskip("transformers")
SENTENCES = [
    "The cats saw how dogs hug.",
    "The cats saw how dogs hugs.",
    "Isn't a rat far?",
    "Mats",
]
WIDTH, STD = 32, 0.3


@pytest.fixture(params=["a few", pytest.param("BLiMP", marks=pytest.mark.slow)])
def sentences(request):
    """Some sentences, or those of 134 pairs of BLiMP, two of each paradigm."""
    if request.param == "a few":
        return SENTENCES
    blimp = request.getfixturevalue("real_data") / "blimp"
    pairs, _ = read_sets([str(blimp)], limit=2)
    assert len(pairs) == 2 * 67
    return [sentence for pair in pairs for sentence in pair.options]


def score(learner, sentences, scoring="auto"):
    precision = Precision("fp32", torch.device("cpu"))
    scorer = TextScorer(learner, scoring, precision=precision, max_tokens=2000)
    return scorer.score(scorer.encode(sentences))[0]


def masked_scores(model, tokenizer, sentences, *, within_word=False):
    """For each sentence log p of its tokens, each where it is masked.

    With `within_word`, the later tokens of its word are masked as well, by the tokenizer's own
    assignment of tokens to words.
    """
    found = []
    for sentence in sentences:
        encoded = tokenizer(sentence, return_tensors="pt")
        ids, words = encoded["input_ids"][0], encoded.word_ids()
        rows, places = [], [place for place, word in enumerate(words) if word is not None]
        for place in places:
            rows.append(ids.clone())
            rows[-1][place] = tokenizer.mask_token_id
            later = [it for it in places if it > place and words[it] == words[place]]
            rows[-1][later if within_word else []] = tokenizer.mask_token_id
        logits = model(torch.stack(rows)).logits.log_softmax(-1)
        found.append([float(logits[row, place, ids[place]]) for row, place in enumerate(places)])
    return found


@pytest.fixture
def pieces(sentences):
    """BERT's tokenizer with pieces of these sentences, so that many words have several."""
    size = 45 if sentences is SENTENCES else 800
    return Tokenizer.train(sentences, kind="wordpiece", vocabulary_size=size, lowercase=True)


def save_bert(folder, symbols):
    """A random BERT with this vocabulary."""
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(symbols))
    tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"), do_lower_case=True)
    config = transformers.BertConfig(
        vocab_size=len(symbols), hidden_size=WIDTH, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, max_position_embeddings=200, initializer_range=STD,
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.BertForMaskedLM(config).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("within_word", [False, True])
def test_scores_of_an_imported_bert_equal_a_loop_over_it(tmp_path, sentences, pieces, within_word):
    model, tokenizer = save_bert(tmp_path / "bert", pieces.vocabulary.symbols)
    assert convert(["import", str(tmp_path / "bert"), str(tmp_path / "ours")]) == 0
    scoring = "within_word_left_to_right" if within_word else "pseudo_log_likelihood"
    found = score(load_checkpoint(tmp_path / "ours").double(), sentences, scoring)
    by_token = masked_scores(model.double(), tokenizer, sentences, within_word=within_word)
    expected = [sum(it) for it in by_token]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def make_gpt2(byte_pieces):
    """A random GPT-2, its tokenizer, and our model with the same weights."""
    tokens, shape = len(byte_pieces.vocabulary), {"layers": 2, "width": WIDTH, "heads": 4}
    config = transformers.GPT2Config(
        vocab_size=tokens, n_embd=WIDTH, n_layer=2, n_head=4, n_positions=200,
        activation_function="relu", initializer_range=STD,
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(config).eval().double()
    shape |= {"feed_forward_width": 4 * WIDTH, "max_positions": 200, "activation": "relu"}
    learner = build_model(
        "transformer_lm_gpt2", tokenizer=byte_pieces, task="language_modeling", **shape
    )
    learner.eval().double()
    copy_model(learner.encoder, model.transformer.wte, model.transformer.wpe, model.transformer)
    learner.encoder.decoder.norm.load_state_dict(model.transformer.ln_f.state_dict())
    inner = pytest.importorskip("tokenizers").Tokenizer.from_str(byte_pieces.text)
    given = transformers.PreTrainedTokenizerFast(tokenizer_object=inner)
    return model, given, learner


@torch.no_grad()
def test_scores_of_gpt2_equal_a_loop_over_it(sentences, byte_pieces):
    model, given, learner = make_gpt2(byte_pieces)
    expected = []
    for sentence in sentences:
        ids = torch.tensor([byte_pieces.vocabulary.sep, *given(sentence)["input_ids"]])
        logits = model(ids[None, :-1]).logits[0].log_softmax(-1)
        expected.append(float(logits.gather(1, ids[1:, None]).sum()))
    np.testing.assert_allclose(score(learner, sentences), expected, rtol=0, atol=1e-8)


def sum_words(sentence, encoded, numbers):
    """Sums over the tokens of each word between spaces, by the characters that a token ends at."""
    spans = encoded["offset_mapping"]
    words = [len(f"{sentence[:end]}x".split()) - 1 for start, end in spans if start < end]
    return np.bincount(words, numbers).tolist()


def measure(learner, sentences):
    reader = SurprisalReader(learner, SurprisalOptions(), max_tokens=2000)
    return [[word.surprisal for word in words] for words in reader.measure(sentences)]


@pytest.mark.slow
@torch.no_grad()
def test_surprisals_of_an_imported_bert_equal_a_loop_over_it(tmp_path, sentences, pieces):
    model, tokenizer = save_bert(tmp_path / "bert", pieces.vocabulary.symbols)
    assert convert(["import", str(tmp_path / "bert"), str(tmp_path / "ours")]) == 0
    found = measure(load_checkpoint(tmp_path / "ours"), sentences)
    by_token = masked_scores(model, tokenizer, sentences, within_word=True)
    for sentence, bits, logs in zip(sentences, found, by_token, strict=True):
        encoded = tokenizer(sentence, return_offsets_mapping=True)
        expected = sum_words(sentence, encoded, -np.array(logs) / np.log(2))
        np.testing.assert_allclose(bits, expected, rtol=0, atol=1e-4)


@torch.no_grad()
def test_surprisals_of_gpt2_equal_a_loop_over_it(sentences, byte_pieces):
    model, given, learner = make_gpt2(byte_pieces)
    spaced = torch.tensor([it[0] == "Ġ" for it in byte_pieces.vocabulary.symbols])
    spaced[byte_pieces.vocabulary.sep] = True
    for sentence, bits in zip(sentences, measure(learner.float(), sentences), strict=True):
        encoded = given(sentence, return_offsets_mapping=True)
        tokens = encoded["input_ids"]
        ids = torch.tensor([[byte_pieces.vocabulary.sep, *tokens]])
        p, logs = model(ids).logits[0].softmax(-1), []
        for t, token in enumerate(tokens):
            begins = p[t, spaced if t else ~spaced].sum() if t == 0 or spaced[token] else 1
            ends = p[t + 1, spaced].sum() if t + 1 == len(tokens) or spaced[tokens[t + 1]] else 1
            logs.append(-float(torch.log2(p[t, token] * ends / begins)))
        np.testing.assert_allclose(bits, sum_words(sentence, encoded, logs), rtol=0, atol=1e-4)
