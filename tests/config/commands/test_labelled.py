from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PreprocessConfig


@pytest.mark.parametrize("name", ["text_columns", "label_column", "label_type"])
def test_columns_of_the_benchmarks_tables_are_known_already(name):
    given = {"trainpref": "x", "format": "glue", "glue_task": "RTE", name: "number"}
    with pytest.raises(ToolkitError, match=rf"{name} must be given with --format tsv, but the for"):
        PreprocessConfig(**given)


def test_labeled_text_may_be_cut_into_any_kind_of_tokens():
    given = {"trainpref": "x", "format": "glue", "glue_task": "RTE"}
    assert PreprocessConfig(**given, tokenizer="words").tokenizer_kind == "words"
