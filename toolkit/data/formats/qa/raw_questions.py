"""Questions without answers as a data folder in memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from toolkit.data.formats.qa.columns import MULTIPLE_CHOICE, SQUAD
from toolkit.data.formats.qa.encode_questions import ENCODE
from toolkit.data.formats.qa.passages import ChoiceQuestion, Passage, SpanQuestion
from toolkit.data.storage.memory_folder import MemoryFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer


def encode_span_questions(
    tokenizer: Tokenizer, questions: Sequence[tuple[str, str]]
) -> MemoryFolder:
    """A folder of pairs of a question and its passage; a repeated passage is encoded once."""
    passages = []
    for context, group in groupby(questions, lambda pair: pair[1]):
        asked = [SpanQuestion("", question, (), False, "") for question, _ in group]
        passages.append(Passage(context, questions=asked))
    return MemoryFolder(SQUAD, tokenizer, ENCODE[SQUAD](passages, tokenizer).columns)


def encode_choice_questions(
    tokenizer: Tokenizer, questions: Sequence[tuple[str, tuple[str, ...]]]
) -> MemoryFolder:
    """A folder of pairs of a passage and the options; a repeated passage is encoded once."""
    passages = []
    for context, group in groupby(questions, lambda pair: pair[0]):
        choices = [ChoiceQuestion("", options, None, "") for _, options in group]
        passages.append(Passage(context, choices=choices))
    encoded = ENCODE[MULTIPLE_CHOICE](passages, tokenizer)
    return MemoryFolder(MULTIPLE_CHOICE, tokenizer, encoded.columns)
