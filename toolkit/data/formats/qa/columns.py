"""Columns of a folder of questions.

Every item is a question. What belongs to a passage is stored with its first question. The others
say how many items back that is, and are empty in those columns.
"""

from __future__ import annotations

SQUAD, MULTIPLE_CHOICE = "squad", "multiple_choice"
CONTEXT, BEGINS, ENDS, BACK, TEXT = "tokens", "begins", "ends", "back", "text"
QUESTION, SPAN, RECORD = "question", "span", "record"
OPTIONS, COUNTS, ANSWER = "options", "option_lengths", "answer"
TOKEN_IDS = "ids"
"""In place of a dtype: ids of the vocabulary."""
SQUAD_COLUMNS = {
    **{CONTEXT: TOKEN_IDS, QUESTION: TOKEN_IDS, TEXT: "<u1", RECORD: "<u1"},
    **dict.fromkeys((BEGINS, ENDS, BACK, SPAN), "<i4"),
}
CHOICE_COLUMNS = {
    **{CONTEXT: TOKEN_IDS, OPTIONS: TOKEN_IDS, RECORD: "<u1"},
    **dict.fromkeys((BACK, COUNTS, ANSWER), "<i4"),
}
