"""Conversion of a SentencePiece model to a tokenizer.json with the same ids.

Normalization becomes normalizers of the package `tokenizers`: lowercasing without accents, the
model's character map, and merged spaces. If two segmentations of a word are equally probable,
rounding may choose differently.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.sentencepiece import SentencePieceTokenizer, parse_model
from toolkit.data.tokenizers.vocabulary import WORD_START
from toolkit.data.tokenizers.wordpiece import HfTokenizer, import_tokenizers

if TYPE_CHECKING:
    from tokenizers.normalizers import Normalizer as Normalizer
    from tokenizers.processors import PostProcessor as PostProcessor
else:  # tokenizers is optional
    Normalizer = PostProcessor = object

UNIGRAM = 1  # SentencePiece's number of the model type
USER_DEFINED = 4  # SentencePiece's number of the piece type


def sentencepiece_tokenizer(source: SentencePieceTokenizer) -> HfTokenizer:
    """A `tokenizers.Tokenizer` with the same ids, still without special tokens."""
    proto = parse_model(source.model)
    check_expressible(proto, commas=source.split_digit_commas)
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    return unigram_tokenizer(proto, pieces, source.vocabulary.unk, lowercase=source.lowercase)


def unigram_tokenizer(
    proto: Any, pieces: Sequence[tuple[str, float]], unknown: int, *, lowercase: bool
) -> HfTokenizer:
    """A unigram tokenizer over pieces in the order of their ids."""
    package = import_tokenizers()
    fallback = proto.trainer_spec.byte_fallback
    model = package.models.Unigram(list(pieces), unknown, fallback)
    tokenizer: HfTokenizer = package.Tokenizer(model)
    tokenizer.normalizer = package.normalizers.Sequence(
        [*(lowercase_normalizers() if lowercase else []), *build_normalizers(proto.normalizer_spec)]
    )
    start = "first" if proto.normalizer_spec.add_dummy_prefix else "never"
    marks = {"replacement": WORD_START, "prepend_scheme": start}
    tokenizer.pre_tokenizer = package.pre_tokenizers.Metaspace(**marks)
    tokenizer.decoder = package.decoders.Metaspace(**marks)
    return tokenizer


def check_expressible(proto: Any, *, commas: bool = False) -> None:
    """Raise if a tokenizer.json cannot give exactly the same ids."""
    reasons = {
        "splits commas from digits (--split-digit-commas)": commas,
        "is not a unigram model": proto.trainer_spec.model_type != UNIGRAM,
        "has user-defined symbols": any(p.type == USER_DEFINED for p in proto.pieces),
        "marks the ends of words": proto.trainer_spec.treat_whitespace_as_suffix,
        "does not escape spaces": not proto.normalizer_spec.escape_whitespaces,
    }
    if applicable := [reason for reason, applies in reasons.items() if applies]:
        raise ToolkitError(
            f"a SentencePiece tokenizer must be a plain unigram model to become a tokenizer.json "
            f"with the same ids, but this one {' and '.join(applicable)}. Nothing was written."
        )


def build_normalizers(spec: Any) -> list[Normalizer]:
    """The model's character map and its treatment of spaces.

    The space after a special token remains: it starts a word.
    """
    package = import_tokenizers()
    normalizers: list[Normalizer] = []
    if spec.precompiled_charsmap:
        normalizers.append(package.normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        ends = " +$" if spec.add_dummy_prefix else "^ +| +$"
        normalizers.append(package.normalizers.Replace(package.Regex(ends), ""))
        normalizers.append(package.normalizers.Replace(package.Regex(" {2,}"), " "))
    return normalizers


def lowercase_normalizers() -> list[Normalizer]:
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
    ranges = []
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        ranges.append((run[0], run[-1]))
    return ranges
