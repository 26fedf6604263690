"""What comes before the pieces, character by character."""

from __future__ import annotations

import random
import unicodedata

import pytest
from tokenizers import normalizers

from toolkit.common.errors import ToolkitError
from toolkit.conversion.sentencepiece_to_json import (
    consecutive_ranges,
    lowercase_normalizers,
    parse_model,
)
from toolkit.data.tokenizers.normalize import lower_without_accents


@pytest.fixture(scope="module")
def lowered():
    return normalizers.Sequence(lowercase_normalizers()).normalize_str


@pytest.mark.slow
def test_lowercase_normalizers_equal_the_toolkit_for_every_character(lowered):
    codes = [c for c in range(0x20000) if not 0xD800 <= c < 0xE000]
    assigned = [c for c in codes if unicodedata.category(chr(c)) != "Cn"]
    others = [c for c in assigned if lowered(f"x{chr(c)}x") != lower_without_accents(f"x{chr(c)}x")]
    assert len(assigned) > 80_000 and not [c for c in others if c < 0x3000]
    assert len(others) < 150  # since Unicode 12 (2019), of which the package tokenizers knows less


def test_lowercase_normalizers_use_the_final_sigma(lowered):
    for text in (
        "\u039b\u039f\u0393\u039f\u03a3",
        "\u03a3",
        "a\u03a3 \u03a3a",
        "\u03a3\u03a3.",
        "\u0391\u03a3!\u03a3",
    ):
        assert lowered(text) == lower_without_accents(text), text


def test_lowercase_normalizers_equal_the_toolkit_on_text(lowered):
    draw = random.Random(4)
    some = [
        *range(32, 0x250),
        *range(0x300, 0x530),
        0xA0,
        0x3000,
        0xFB01,
        0x1E9E,
        *[32, 0x3A3] * 40,
    ]
    for _ in range(2000):
        text = "".join(chr(draw.choice(some)) for _ in range(draw.randrange(12)))
        assert lowered(text) == lower_without_accents(text), ascii(text)


def test_consecutive_ranges_are_first_and_last_numbers():
    assert (
        consecutive_ranges([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]
        and consecutive_ranges([]) == []
    )


def test_parse_model_rejects_other_bytes():
    with pytest.raises(ToolkitError, match=r"a SentencePiece model must be readable, but is not"):
        parse_model(b"no model")
