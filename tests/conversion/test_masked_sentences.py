"""Answers for masked sentences equal those of Transformers' fill-mask pipeline."""

from __future__ import annotations

import re

import pytest
import tokenizers
import torch
import transformers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers

from toolkit import build_model, load_checkpoint
from toolkit.cli.convert import main
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer, train_pieces
from toolkit.data.tokenizers.tokenizer import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PUNCTUATION = [".", ",", ";", "!", "?", "'", '"', ")"]
SENTENCES = [
    "The old [MASK], who had seen it all, said nothing.",
    "She opened the door and went into the [MASK].",
    "“Is it you, [MASK]?” he asked; it was not.",
    "[MASK]! The café was closed (as usual).",
    "He was sure of it: the [MASK]'s house, not theirs.",
    "(The answer was [MASK])  and that was that.",
    "It cost 1,234.50 in [MASK], or less.",
    "A naïve [MASK]-maker lived there",
    "The mill stood by the river; [MASK].",
    " He saw the small [MASK] near  the gate, [SEP] she did not.",
    "The [UNK]'s [MASK][SEP]and so on, [UNK] [E1], [E1]too.",
]
SMALL = {
    "hidden_size": 24,
    "embedding_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 200,
    "initializer_range": 0.5,  # so that answers depend on every token of a sentence
}


def bert_pieces(sentences):
    """Pieces of these sentences, and punctuation that continues a word, as in BERT's vocab.txt."""
    trained = Tokenizer.train(sentences, kind="wordpiece", vocabulary_size=600, lowercase=True)
    return [*trained.vocabulary.symbols, *(f"##{mark}" for mark in PUNCTUATION)]


def word_piece(sentences, *, added=()):
    """BERT's tokenizer, with tokens that were added to it."""
    pieces = {piece: i for i, piece in enumerate(dict.fromkeys(bert_pieces(sentences)))}
    found = tokenizers.Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    found.normalizer = normalizers.BertNormalizer(lowercase=True)
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    found.decoder = decoders.WordPiece()
    found.add_special_tokens(SPECIAL)
    found.add_tokens(list(added))
    return found


def byte_level(sentences, *, lstrip):
    """The tokenizer of RoBERTa and ModernBERT; theirs has lstrip."""
    found = tokenizers.Tokenizer(models.BPE())
    found.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found.decoder = decoders.ByteLevel()
    mask = AddedToken("[MASK]", special=True, normalized=False, lstrip=lstrip)
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[*SPECIAL[:4], mask],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    found.train_from_iterator(sentences, trainer)
    return found


def unigram(sentences):
    """The tokenizer of ALBERT and XLM-R, which starts a word after every special token."""
    found = tokenizers.Tokenizer(models.Unigram())
    found.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    found.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=SPECIAL, unk_token="[UNK]", show_progress=False
    )
    found.train_from_iterator(sentences, trainer)
    return found


IMPORTED = {
    "bert, added token": ("BertForMaskedLM", lambda s: word_piece(s, added=["gatehouse", "[E1]"])),
    "convbert": ("ConvBertForMaskedLM", word_piece),
    "byte-level, lstrip": ("BertForMaskedLM", lambda s: byte_level(s, lstrip=True)),
    "byte-level": ("BertForMaskedLM", lambda s: byte_level(s, lstrip=False)),
    "unigram": ("BertForMaskedLM", unigram),
}
EXPORTED = {
    "sentencepiece, lowercase": ("unigram", {"lowercase": True}),
    "sentencepiece, bpe": ("bpe", {"lowercase": False}),
    "sentencepiece, commas": ("unigram", {"lowercase": False, "split_digit_commas": True}),
}


def imported(case, sentences, folder):
    """The learner of a model of Transformers, whose folder is `folder`."""
    name, build = IMPORTED[case]
    tokenizer = build(sentences)
    shape = {**SMALL, "vocab_size": tokenizer.get_vocab_size()}
    config = getattr(transformers, f"{name.removesuffix('ForMaskedLM')}Config")(**shape)
    torch.manual_seed(7)
    getattr(transformers, name)(config).save_pretrained(folder)
    tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **dict(zip(names, SPECIAL, strict=True))
    )
    fast.save_pretrained(folder)
    assert main(["import", str(folder), str(folder) + "-toolkit"]) == 0
    return load_checkpoint(str(folder) + "-toolkit")


def exported(case, sentences, folder):
    """A learner, whose export is `folder`."""
    algorithm, options = EXPORTED[case]
    texts = [text.lower() if options["lowercase"] else text for text in sentences]
    model = train_pieces(texts, vocabulary_size=300, algorithm=algorithm, max_bytes=10**5)
    tokenizer = SentencePieceTokenizer(model, **options)
    learner = build_model("bert_tiny", tokenizer=tokenizer, task="mlm", layers=2).eval()
    for weight in (it for it in learner.parameters() if it.dim() > 1):
        weight.data.normal_(0, 0.5)
    learner.save(str(folder) + "-toolkit")
    classes = "native" if algorithm == "unigram" and len(options) == 1 else "toolkit"
    paths = [str(folder) + "-toolkit", str(folder)]
    assert main(["export", *paths, "--classes", classes]) == 0
    return learner


def check_answers(case, sentences, folder):
    """Compare answers with the pipeline, and batches of one sentence with batches of 64."""
    training = [re.sub(r"\[[A-Z1]+\]", "word", sentence) for sentence in sentences]
    learner = (imported if case in IMPORTED else exported)(case, training, folder)
    fill = transformers.pipeline("fill-mask", model=str(folder), trust_remote_code=True)
    vocabulary, unknown = learner.tokenizer.vocabulary, fill.tokenizer.unk_token
    symbols = [vocabulary.display_symbol(symbol) for symbol in vocabulary.symbols]
    sentences = [text.replace("[UNK]", unknown) for text in sentences]
    given = [text.replace("[MASK]", fill.tokenizer.mask_token) for text in sentences]
    want = [[(symbols[it["token"]], it["score"]) for it in found] for found in fill(given, top_k=5)]
    one, many = (learner.fill_mask(sentences, top=5, batch_size=size) for size in (1, 64))
    for text, expected, [alone], [together] in zip(sentences, want, one, many, strict=True):
        for answers in (alone, together):
            assert [it[0] for it in answers] == [it[0] for it in expected], text
            assert [it[1] for it in answers] == pytest.approx([it[1] for it in expected], abs=2e-5)


@pytest.mark.parametrize("case", [*IMPORTED, *EXPORTED])
def test_masked_sentences_equal_the_pipeline(case, tmp_path):
    check_answers(case, SENTENCES, tmp_path / "hf")
