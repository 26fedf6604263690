"""Columns of a folder of questions.

Every item is a question. The columns of its passage are stored with the passage's first question
and are empty for the others, which store how many items back that is.
"""

from __future__ import annotations

SQUAD, MULTIPLE_CHOICE = "squad", "multiple_choice"
CONTEXT, BEGINS, ENDS, BACK, TEXT = "tokens", "begins", "ends", "back", "text"
QUESTION, SPAN, RECORD = "question", "span", "record"
OPTIONS, COUNTS, ANSWER = "options", "option_lengths", "answer"
TOKEN_IDS = "ids"
"""Stands for the dtype of the vocabulary's ids."""
SQUAD_COLUMNS = {
    **{CONTEXT: TOKEN_IDS, QUESTION: TOKEN_IDS, TEXT: "<u1", RECORD: "<u1"},
    **dict.fromkeys((BEGINS, ENDS, BACK, SPAN), "<i4"),
}
CHOICE_COLUMNS = {
    **{CONTEXT: TOKEN_IDS, OPTIONS: TOKEN_IDS, RECORD: "<u1"},
    **dict.fromkeys((BACK, COUNTS, ANSWER), "<i4"),
}
