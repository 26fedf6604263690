"""Tokenizers of fairseq's RoBERTa, from dict.txt and the subword files next to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.common.input_files import read_bytes
from toolkit.common.json_files import Count, read_json, read_text
from toolkit.conversion import sentencepiece_to_json
from toolkit.data.tokenizers.huggingface import HuggingFaceTokenizer
from toolkit.data.tokenizers.sentencepiece import parse_model
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.data.tokenizers.word_level import WordLevelTokenizer
from toolkit.data.tokenizers.wordpiece import HfTokenizer, import_tokenizers

DICTIONARY_FILE = "dict.txt"
BYTE_LEVEL = (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt"))
"""File names of GPT-2's BPE: the original ones and those of Transformers."""
NORMAL = 1  # SentencePiece's type of ordinary pieces
UNIGRAM = ("sentencepiece.bpe.model", "sentencepiece.model")


def load_tokenizer(path: Path, rows: int) -> Tokenizer:
    """A subword tokenizer if its files exist, else one for text that is split into symbols."""
    folder = path.parent
    if not (folder / DICTIONARY_FILE).is_file():
        raise ToolkitError(
            f"{folder} must contain the {DICTIONARY_FILE} of the model, but does not. Copy it next "
            f"to {path.name}. To read plain text, add GPT-2's encoder.json and vocab.bpe, or the "
            f"SentencePiece model."
        )
    words = WordLevelTokenizer.from_file(folder / DICTIONARY_FILE)
    if len(words.vocabulary) != rows:
        raise ToolkitError(
            f"{folder / DICTIONARY_FILE} must have one symbol for each of the model's {rows} "
            f"rows, but has {len(words.vocabulary)}. Use the file that the model was trained with."
        )
    for names in BYTE_LEVEL:
        if all((folder / name).is_file() for name in names):
            return byte_level_tokenizer(words, *(folder / name for name in names))
    for name in UNIGRAM:
        if (folder / name).is_file():
            return sentencepiece_tokenizer(words, read_bytes(folder / name))
    return words


def byte_level_tokenizer(
    words: WordLevelTokenizer, pieces: Path, merges: Path
) -> HuggingFaceTokenizer:
    """GPT-2's BPE (Radford et al. 2019); the symbols of dict.txt are GPT-2's ids in decimal."""
    package = import_tokenizers()
    ids = ordinary_symbols(words)
    try:
        lines = [line for line in read_text(merges).splitlines() if line]
        pairs = [tuple(line.split()) for line in lines if not line.startswith("#version")]
        numbers = read_json(pieces, dict[str, Count], "Use GPT-2's original files.")
        index = assign_ids({p: ids.get(str(n)) for p, n in numbers.items()}, words)
        index |= {s: i for i, s in enumerate(words.vocabulary.symbols) if s not in ids}
        tokenizer = package.Tokenizer(package.models.BPE(index, pairs))
    except Exception as error:  # the bindings raise plain exceptions
        raise ToolkitError(
            f"{pieces} and {merges.name} must list subwords and merges as GPT-2's files do, but "
            f"do not: {error}. Use GPT-2's original files."
        ) from error
    tokenizer.pre_tokenizer = package.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = package.decoders.ByteLevel()
    return add_special_tokens(tokenizer, words)


def sentencepiece_tokenizer(words: WordLevelTokenizer, model: bytes) -> HuggingFaceTokenizer:
    """SentencePiece with the ids of dict.txt (Conneau et al. 2020)."""
    proto = parse_model(model)
    sentencepiece_to_json.check_expressible(proto)
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type == NORMAL}
    symbols = words.vocabulary.symbols
    more = sorted(scores.keys() - set(symbols))
    listed = [(symbol, scores.get(symbol, 0.0)) for symbol in [*symbols, *more]]
    tokenizer = sentencepiece_to_json.unigram_tokenizer(
        proto, listed, words.vocabulary.unk, lowercase=False
    )
    return add_special_tokens(tokenizer, words)


def ordinary_symbols(words: WordLevelTokenizer) -> dict[str, int]:
    """Symbol -> id, without special tokens."""
    roles = set(words.vocabulary.roles.values())
    return {s: i for i, s in enumerate(words.vocabulary.symbols) if i not in roles}


def assign_ids(index: Mapping[str, int | None], words: WordLevelTokenizer) -> dict[str, int]:
    """Ids of subwords; those missing from dict.txt get unknown ids above its rows."""
    above = iter(range(len(words.vocabulary), len(words.vocabulary) + len(index)))
    return {piece: next(above) if i is None else i for piece, i in index.items()}


def add_special_tokens(tokenizer: HfTokenizer, words: WordLevelTokenizer) -> HuggingFaceTokenizer:
    """Add fairseq's special tokens with their ids; the mask includes the space before it."""
    package, vocabulary = import_tokenizers(), words.vocabulary
    names = {vocabulary.symbols[i]: role == "mask" for role, i in vocabulary.roles.items()}
    tokenizer.add_special_tokens(
        [
            package.AddedToken(name, special=True, normalized=False, lstrip=masks)
            for name, masks in names.items()
        ]
    )
    return HuggingFaceTokenizer(tokenizer.to_str(), vocabulary.roles, rows=len(vocabulary))
