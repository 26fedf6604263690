"""The names by which raw items are read."""

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.raw_items import InputField, read_item, rename_fields

WORDS = InputField(("words", "tokens", "text"), "words")
QUESTION, PASSAGE = InputField(("question",)), InputField(("context", "passage", "article"))
OPTIONS = InputField(("options", "endings"), "texts")


def test_the_first_name_that_an_item_has_is_read():
    item = {"text": "Don't go.", "tokens": ["Do", "n't", "go", "."]}
    assert read_item([WORDS], item) == {"words": ["Do", "n't", "go", "."]}
    item = {"question": "Who?", "article": "A title", "context": "A passage"}
    assert read_item([QUESTION, PASSAGE], item) == {"question": "Who?", "context": "A passage"}
    item = {"ending0": "a", "ending1": "b", "option0": "c", "option1": "d"}
    assert read_item([OPTIONS], item) == {"options": ["c", "d"]}


def test_a_name_that_the_user_gives_is_read_before_the_others():
    fields = rename_fields([QUESTION, PASSAGE], "asked, article")
    item = {"question": "no", "asked": "Who?", "context": "no", "article": "A passage"}
    assert read_item(fields, item) == {"question": "Who?", "context": "A passage"}
    assert read_item(fields, {"question": "Who?", "context": "A passage"})["question"] == "Who?"


def test_a_template_joins_columns_unless_one_is_missing():
    fields = rename_fields([QUESTION, PASSAGE], "Question: {asked} Answer: {reply},text")
    item = {"asked": "Who?", "reply": "I {asked}.", "text": "A passage"}
    assert read_item(fields, item)["question"] == "Question: Who? Answer: I {asked}."
    with pytest.raises(ToolkitError, match=r"'question' is missing among 'reply' and 'text'"):
        read_item(fields, {"reply": "I", "text": "A passage"})
