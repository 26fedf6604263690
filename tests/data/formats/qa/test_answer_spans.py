from __future__ import annotations

import numpy as np
import pytest

from toolkit.data.formats.qa.format import GoldAnswer
from toolkit.data.formats.qa.split import character_span
from toolkit.data.formats.qa.squad import find_mismatch, token_span

TEXT = "in 1905-06 (Rome) "
STARTS, ENDS = np.array([0, 3, 3, 11, 17]), np.array([2, 3, 10, 17, 17])
"""`in`, the mark of a word, `1905-06`, `(Rome)`, a mark."""


@pytest.mark.parametrize(
    ("span", "tokens"),
    [((0, 2), (0, 0)), ((3, 10), (2, 2)), ((1, 12), (0, 3)), ((2, 3), None), ((17, 18), None)],
)
def test_token_span_covers_the_characters_of_an_answer(span, tokens):
    assert token_span(STARTS, ENDS, *span) == tokens


def test_character_span_covers_the_tokens():
    assert TEXT[slice(*character_span(STARTS, ENDS, 1, 2))] == "1905-06"
    assert character_span(STARTS, ENDS, 3, 4) == (11, 17)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1905", "since it ends inside a token"),
        ("06", "since it begins inside a token"),
        ("Rome", "since it begins and ends inside a token"),
        (" ", "no token covers it"),
    ],
)
def test_mismatch_of_an_answer_has_the_reason(text, why):
    mismatch = find_mismatch("question 1", GoldAnswer(text, TEXT.index(text)), TEXT, STARTS, ENDS)
    assert mismatch is not None and mismatch.why == why and repr(text) in str(mismatch)


@pytest.mark.parametrize("text", ["1905-06", " 1905-06 ", "in 1905-06 (Rome)"])
def test_recovered_answer_is_no_mismatch(text):
    assert find_mismatch("", GoldAnswer(text, TEXT.index(text)), TEXT, STARTS, ENDS) is None
