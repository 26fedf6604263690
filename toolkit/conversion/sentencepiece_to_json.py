"""A SentencePiece model as a tokenizer.json that gives the same ids.

What comes before the pieces is said in the package's own terms: our lower-casing without accents,
the table of characters that the model was trained with, and spaces taken together. Where two ways
to cut a word are equally probable, rounding may decide otherwise there.
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
    """A Tokenizer of the package, with the pieces' own ids; special symbols are to follow them."""
    proto = parse_model(source.model)
    check_expressible(proto, commas=source.split_digit_commas)
    pieces = [(piece.piece, piece.score) for piece in proto.pieces]
    return unigram_tokenizer(proto, pieces, source.vocabulary.unk, lowercase=source.lowercase)


def unigram_tokenizer(
    proto: Any, pieces: Sequence[tuple[str, float]], unknown: int, *, lowercase: bool
) -> Any:
    """A unigram model's way with text, over pieces in the order of their ids."""
    package = import_tokenizers()
    fallback = proto.trainer_spec.byte_fallback
    made = package.Tokenizer(package.models.Unigram(list(pieces), unknown, fallback))
    made.normalizer = package.normalizers.Sequence(
        [*(lowercase_normalizers() if lowercase else []), *build_normalizers(proto.normalizer_spec)]
    )
    start = "always" if proto.normalizer_spec.add_dummy_prefix else "never"
    marks = {"replacement": WORD_START, "prepend_scheme": start}
    made.pre_tokenizer = package.pre_tokenizers.Metaspace(**marks)
    made.decoder = package.decoders.Metaspace(**marks)
    return made


def parse_model(model: bytes) -> Any:
    """The model's own message, which comes with the package sentencepiece."""
    messages: Any = importlib.import_module("sentencepiece.sentencepiece_model_pb2")
    proto = messages.ModelProto()
    try:
        proto.ParseFromString(model)
    except Exception as error:  # the package protobuf has a class of its own for it
        raise ToolkitError(
            f"a SentencePiece model must be readable, but is not: {error}. Give the .model file "
            f"that its training wrote."
        ) from error
    return proto


def check_expressible(proto: Any, *, commas: bool = False) -> None:
    """What no tokenizer.json describes to the last id."""
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
    """The model's own table of characters, and its way with spaces."""
    package = import_tokenizers()
    found = []
    if spec.precompiled_charsmap:
        found.append(package.normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        found.append(package.normalizers.Replace(package.Regex("^ +| +$"), ""))
        found.append(package.normalizers.Replace(package.Regex(" {2,}"), " "))
    return found


def lowercase_normalizers() -> list[Any]:
    """NFKD, drop combining marks, lower, as toolkit.data.tokenizers.normalize does it."""
    package = import_tokenizers()
    n = package.normalizers
    return [
        n.NFKD(),
        n.Replace(package.Regex(combining_characters()), ""),
        n.Replace(package.Regex(FINAL_SIGMA), "\u03c2"),
        n.Lowercase(),
    ]


FINAL_SIGMA = r"(?<=[\p{L}\p{Nl}])\u03a3(?![\p{L}\p{Nl}])"
"""A capital sigma at a word's end, which Python's lower-casing writes as the final one."""


@cache
def combining_characters() -> str:
    """A class of the characters that unicodedata calls combining."""
    codes = (code for code in range(sys.maxunicode + 1) if unicodedata.combining(chr(code)))
    return "[" + "".join(f"\\x{{{a:x}}}-\\x{{{b:x}}}" for a, b in consecutive_ranges(codes)) + "]"


def consecutive_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive numbers."""
    found = []
    for _, group in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        found.append((run[0], run[-1]))
    return found
