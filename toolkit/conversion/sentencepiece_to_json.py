"""Conversion of a SentencePiece model to a tokenizer.json with the same ids.

Normalization becomes normalizers of the package `tokenizers`: our lowercasing without accents, the
model's own character map, and merged spaces. If two segmentations of a word are equally probable,
rounding may choose differently.
"""

from __future__ import annotations

import importlib
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer
from toolkit.data.tokenizers.vocabulary import WORD_START
from toolkit.data.tokenizers.wordpiece import import_tokenizers

UNIGRAM, BPE = 1, 2
USER_DEFINED = 4


def sentencepiece_tokenizer(source: SentencePieceTokenizer) -> Any:
    """A `tokenizers.Tokenizer` with the same ids, still without special tokens."""
    proto = parse_model(source.model)
    check_expressible(proto, commas=source.split_digit_commas)
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    return unigram_tokenizer(proto, pieces, source.vocabulary.unk, lowercase=source.lowercase)


def unigram_tokenizer(
    proto: Any, pieces: Sequence[tuple[str, float]], unknown: int, *, lowercase: bool
) -> Any:
    """A unigram tokenizer over pieces in the order of their ids."""
    package = import_tokenizers()
    fallback = proto.trainer_spec.byte_fallback
    tokenizer = package.Tokenizer(package.models.Unigram(list(pieces), unknown, fallback))
    tokenizer.normalizer = package.normalizers.Sequence(
        [*(lowercase_normalizers() if lowercase else []), *build_normalizers(proto.normalizer_spec)]
    )
    start = "always" if proto.normalizer_spec.add_dummy_prefix else "never"
    marks = {"replacement": WORD_START, "prepend_scheme": start}
    tokenizer.pre_tokenizer = package.pre_tokenizers.Metaspace(**marks)
    tokenizer.decoder = package.decoders.Metaspace(**marks)
    return tokenizer


def parse_model(model: bytes) -> Any:
    """The protobuf message of a model."""
    messages: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    proto = messages.ModelProto()
    try:
        proto.ParseFromString(model)
    except Exception as error:  # protobuf's own class
        raise ToolkitError(
            f"a SentencePiece model must be readable, but is not: {error}. Give the .model file "
            f"written by its training."
        ) from error
    return proto


def check_expressible(proto: Any, *, commas: bool = False) -> None:
    """Raise if a tokenizer.json cannot give exactly the same ids."""
    reasons = {
        "splits commas from digits (--split-digit-commas)": commas,
        "is no unigram model": proto.trainer_spec.model_type != UNIGRAM,
        "has symbols of its user's": any(p.type == USER_DEFINED for p in proto.pieces),
        "marks the ends of words": proto.trainer_spec.treat_whitespace_as_suffix,
        "keeps spaces as they are": not proto.normalizer_spec.escape_whitespaces,
    }
    if found := [reason for reason, holds in reasons.items() if holds]:
        raise ToolkitError(
            "a SentencePiece tokenizer must be a plain unigram model to become a "
            "tokenizer.json "
            f"with the same ids, but this one {' and '.join(found)}. Nothing was written."
        )


def build_normalizers(spec: Any) -> list[Any]:
    """The model's character map and its treatment of spaces."""
    package = import_tokenizers()
    found = []
    if spec.precompiled_charsmap:
        found.append(package.normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        found.append(package.normalizers.Replace(package.Regex("^ +| +$"), ""))
        found.append(package.normalizers.Replace(package.Regex(" {2,}"), " "))
    return found


def lowercase_normalizers() -> list[Any]:
    """NFKD, drop combining marks, lowercase, as in toolkit.data.tokenizers.normalize."""
    package = import_tokenizers()
    n = package.normalizers
    return [
        n.NFKD(),
        n.Replace(package.Regex(combining_characters()), ""),
        n.Replace(package.Regex(FINAL_SIGMA), "\u03c2"),
        n.Lowercase(),
    ]


FINAL_SIGMA = r"(?<=[\p{L}\p{Nl}])\u03a3(?![\p{L}\p{Nl}])"
"""A capital sigma at a word's end, which Python lowercases to the final sigma."""


@cache
def combining_characters() -> str:
    """Regex class of the combining characters of unicodedata."""
    codes = (code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code)))
    return "[" + "".join(f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in consecutive_ranges(codes)) + "]"


def consecutive_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last number of each consecutive range."""
    found = []
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        found.append((run[0], run[-1]))
    return found
