from __future__ import annotations

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.qa.format import (
    ChoiceSplit,
    SquadSplit,
    max_context_tokens,
    split_into_windows,
)
from toolkit.data.formats.qa.squad import find_mismatch, token_span

from .conftest import NOTHING, RACE, SQUAD, SWAG, TEXT, YEAR, make_squad


def test_questions_are_read_back_with_their_passages(folder):
    split = SquadSplit(folder(SQUAD, SQUAD), "valid")
    assert len(split) == 3 and split.passage_items.tolist() == [0, 0, 0]
    passage = split.read_passage(2)
    assert passage.text == TEXT and passage is split.read_passage(1)
    assert [r["id"] for r in split.records] == ["q1", "q2", "q3"]
    first, last = split.spans[1]
    assert TEXT[passage.begins[first] : passage.ends[last]] == "1905"


def test_none_allowed_follows_the_version_of_the_file(folder):
    assert not SquadSplit(folder(SQUAD), "train").none_allowed
    split = SquadSplit(folder(make_squad(YEAR, NOTHING), name="two"), "train")
    assert split.none_allowed and split.spans[1].tolist() == [-1, -1]


def test_options_are_read_back_by_question(folder):
    split = ChoiceSplit(folder(SWAG, format_name="swag"), "train")
    assert split.option_counts.tolist() == [3, 3] and split.answers.tolist() == [0, 2]
    assert split.option_lengths.tolist() == [2, 3, 2, 2, 2, 2]
    race = ChoiceSplit(folder(RACE, format_name="race", name="two"), "train")
    assert race.passage_items.tolist() == [0, 0, 0]
    option_ids = race.options.take(np.array([1]), np.array([race.options.lengths[1]])).ids
    said = "Tom flies on Sundays . Tom flies on Mondays ."
    assert race.folder.tokenizer.decode(option_ids.tolist()) == said


def test_data_of_another_kind_is_rejected(folder):
    found = folder(SQUAD)
    with pytest.raises(ToolkitError, match=r"task multiple_choice must have a folder of questions"):
        ChoiceSplit(found, "train")


PHRASE = "in 1905-06 (Rome) "
STARTS, ENDS = np.array([0, 3, 3, 11, 17]), np.array([2, 3, 10, 17, 17])
"""`in`, the mark of a word, `1905-06`, `(Rome)`, a mark."""


@pytest.mark.parametrize(
    ("span", "tokens"),
    [((0, 2), (0, 0)), ((3, 10), (2, 2)), ((1, 12), (0, 3)), ((2, 3), None), ((17, 18), None)],
)
def test_token_span_covers_the_characters_of_an_answer(span, tokens):
    assert token_span(STARTS, ENDS, *span) == tokens


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
    mismatch = find_mismatch("question 1", (text, PHRASE.index(text)), PHRASE, STARTS, ENDS)
    assert mismatch is not None and mismatch["why"] == why and mismatch["wanted"] == text


@pytest.mark.parametrize("text", ["1905-06", " 1905-06 ", "in 1905-06 (Rome)"])
def test_recovered_answer_is_no_mismatch(text):
    assert find_mismatch("", (text, PHRASE.index(text)), PHRASE, STARTS, ENDS) is None


def paper_windows(length, room, stride):
    """Devlin et al.'s code as a plain loop."""
    spans, start = [], 0
    while True:
        size = min(length - start, room)
        spans.append((start, size))
        if start + size == length:
            return spans
        start += min(size, stride)


def paper_max_context(spans, token):
    """The window in which a token has most around it."""
    best, best_window = None, None
    for number, (start, size) in enumerate(spans):
        if start <= token < start + size:
            score = min(token - start, start + size - 1 - token) + 0.01 * size
            if best is None or score > best:
                best, best_window = score, number
    return best_window


@pytest.mark.parametrize(("room", "stride"), [(7, 3), (5, 5), (4, 9), (50, 2), (300, 128)])
def test_windows_and_max_context_equal_the_papers_loop(room, stride):
    lengths = np.array([0, 1, 7, 8, 23, 435])
    found = split_into_windows(lengths, np.full(6, room), stride)
    for question, length in enumerate(lengths.tolist()):
        expected = paper_windows(length, room, stride)
        own = slice(found.first_windows[question], found.first_windows[question + 1])
        assert list(zip(found.starts[own], found.lengths[own], strict=True)) == expected
        for number in range(own.start, own.stop):
            tokens = found.starts[number] + np.arange(found.lengths[number])
            best_windows = [paper_max_context(expected, token) for token in tokens.tolist()]
            assert max_context_tokens(found, number).tolist() == [
                it == number - own.start for it in best_windows
            ]
