from __future__ import annotations

import json

import numpy as np
import pytest

from toolkit.data.formats.qa.format import ChoiceQuestion, GoldAnswer, Passage, SpanQuestion
from toolkit.data.formats.qa.multiple_choice import encode_choices
from toolkit.data.formats.qa.squad import encode_squad
from toolkit.data.tokenizers.word_level import WordLevelTokenizer

TEXT = "The cook,\nJos\u00e9, came. \U0001f600"
COOK = SpanQuestion(
    "q1", "Who  came?", (GoldAnswer("Jos\u00e9", 10), GoldAnswer("cook", 4)), False, "here"
)
NONE = SpanQuestion("q2", "Why?", (), True, "there")
LOST = SpanQuestion("q3", "When?", (GoldAnswer("1905", -1),), False, "there")


@pytest.fixture
def words():
    return WordLevelTokenizer.from_counts({"The": 3, "cook,": 2, "came.": 1}, size=9)


def items(chunk, name):
    values, lengths = chunk.columns[name]
    return [part.tolist() for part in np.split(values, np.cumsum(lengths)[:-1])]


def test_passage_is_stored_with_its_first_question(words):
    chunk = encode_squad(
        [Passage(TEXT, questions=(COOK, NONE)), Passage("came.", questions=(LOST,))], words
    )
    assert items(chunk, "back") == [[0], [1], [0]]
    tokens = items(chunk, "tokens")
    assert tokens == [words.encode(TEXT), [], words.encode("came.")]
    text, nothing, other = (bytes(item).decode() for item in items(chunk, "text"))
    assert (text, nothing, other) == (TEXT, "", "came.")
    places = zip(items(chunk, "begins")[0], items(chunk, "ends")[0], strict=True)
    assert [text[b:e] for b, e in places] == ["The", "cook,", "Jos\u00e9,", "came.", "\U0001f600"]


def test_span_is_that_of_the_first_answer_and_the_record_has_all(words):
    chunk = encode_squad([Passage(TEXT, questions=(COOK, NONE, LOST))], words)
    assert items(chunk, "span") == [[2, 2], [-1, -1], [-2, -2]]
    records = [json.loads(bytes(item)) for item in items(chunk, "record")]
    assert records[0] == {"id": "q1", "answers": ["Jos\u00e9", "cook"], "known": True}
    assert [m.found for m in chunk.mismatches] == ["Jos\u00e9,", "cook,"]
    assert chunk.counts["answers"] == 2 and chunk.counts["none"] == 1


def test_options_are_stored_back_to_back(words):
    choices = [
        ChoiceQuestion("a 1", ("The cook,", "The"), 1, "high"),
        ChoiceQuestion("a 2", ("came.", "x"), None, ""),
    ]
    chunk = encode_choices([Passage(TEXT, choices=choices)], words)
    assert items(chunk, "options") == [words.encode("The cook, The"), words.encode("came. x")]
    assert items(chunk, "option_lengths") == [[2, 1], [1, 1]]
    assert items(chunk, "answer") == [[1], [-1]] and items(chunk, "back") == [[0], [1]]
    assert chunk.counts["unlabeled"] == 1 and chunk.counts["options"] == 4
