"""Tokenizers of bytes and characters: byte-level BPE, single bytes, single characters.

Each is a tokenizer.json with BERT's special tokens as ids 0 to 4, so Transformers opens it as it
is. A word takes the space before it along, and the first word of a line gets one too: a word has
the same tokens everywhere. Without lowercasing nothing is normalized: a line that was encoded and
decoded is the same, to the byte.
"""

from __future__ import annotations

import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer as HfTokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.huggingface import SPECIAL, HuggingFaceTokenizer, library_errors
from toolkit.data.tokenizers.offsets import split_long_words

BYTES = 256
FINAL_SIGMA = r"(?<=[\p{L}\p{Nl}])\u03a3(?![\p{L}\p{Nl}])"
"""A capital sigma at a word's end, which Python lowercases to the final sigma."""


def train_byte_pairs(
    lines: Iterable[str], *, vocabulary_size: int, lowercase: bool
) -> HuggingFaceTokenizer:
    """256 bytes, then the most frequent pairs of pieces, merged again and again (Radford et al.
    2019, code: GPT-2's splitting of words, but with add_prefix_space).

    Lines are read once; the different words and their counts are all that is kept in memory.
    """
    if vocabulary_size < BYTES:
        raise ToolkitError(
            f"vocab_size must be at least {BYTES} with byte-level BPE, one for each byte, but is "
            f"{vocabulary_size}. Raise it."
        )
    backend = HfTokenizer(models.BPE())
    backend.normalizer = normalizers.Sequence(lowercase_normalizers() if lowercase else [])
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=len(SPECIAL) + vocabulary_size,
        special_tokens=[
            AddedToken(name, special=True, normalized=False, lstrip=role == "mask")
            for role, name in SPECIAL.items()  # the mask includes the space before it
        ],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    with library_errors():
        backend.train_from_iterator(map(split_long_words, lines), trainer)
    return HuggingFaceTokenizer(backend.to_str(), ROLES)


def train_bytes(
    lines: Iterable[str], *, vocabulary_size: int = BYTES, lowercase: bool
) -> HuggingFaceTokenizer:
    """Each byte of UTF-8 is a token, whatever the text and the size."""
    return train_byte_pairs([], vocabulary_size=BYTES, lowercase=lowercase)


def train_characters(
    lines: Iterable[str], *, vocabulary_size: int, lowercase: bool
) -> HuggingFaceTokenizer:
    """The space and the most frequent characters; ties in code point order, others are unknown."""
    normalizer = normalizers.Sequence(lowercase_normalizers() if lowercase else [])
    counts = Counter[str]()
    for line in lines:
        counts.update(normalizer.normalize_str(line))
    counts[" "] = sys.maxsize
    ranked = sorted(counts, key=lambda letter: (-counts[letter], letter))[:vocabulary_size]
    ids = {symbol: number for number, symbol in enumerate([*SPECIAL.values(), *ranked])}
    backend = HfTokenizer(models.BPE(ids, [], unk_token=SPECIAL["unk"]))
    backend.normalizer = normalizers.Sequence([normalizer, normalizers.Prepend(" ")])
    backend.decoder = decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    backend.add_special_tokens([*SPECIAL.values()])
    return HuggingFaceTokenizer(backend.to_str(), ROLES)


ROLES = {role: number for number, role in enumerate(SPECIAL)}


def lowercase_normalizers() -> list[Any]:
    """NFKD, drop combining marks, lowercase, as in toolkit.data.tokenizers.offsets."""
    return [
        normalizers.NFKD(),
        normalizers.Replace(Regex(combining_characters()), ""),
        normalizers.Replace(Regex(FINAL_SIGMA), "\u03c2"),
        normalizers.Lowercase(),
    ]


@cache
def combining_characters() -> str:
    """Regex class of the combining characters of unicodedata."""
    codes = (code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code)))
    runs = (list(run) for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]))
    return "[" + "".join(f"\\x{{{run[0][1]:x}}}-\\x{{{run[-1][1]:x}}}" for run in runs) + "]"
