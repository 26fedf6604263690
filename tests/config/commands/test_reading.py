from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig
from toolkit.config.commands.preprocess_formats import QA_FORMATS


@pytest.mark.parametrize("form", QA_FORMATS)
def test_questions_may_be_cut_into_any_kind_of_tokens_and_be_left_out(form):
    config = PreprocessConfig(
        trainpref="x", format=form, tokenizer="wordpiece", on_malformed="skip"
    )
    assert config.tokenizer_kind == "wordpiece"


def test_options_of_other_text_are_refused():
    with pytest.raises(
        ToolkitError, match=r"segment_by must be given with --format text, but the form"
    ):
        PreprocessConfig(trainpref="x", format="squad", segment_by="paragraphs")
