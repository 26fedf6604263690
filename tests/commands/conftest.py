"""Fixtures that tests of commands share with those of data."""

from tests.data.conftest import (
    column as column,
    make_folder as make_folder,
    model_file as model_file,
    random_prose as random_prose,
    tokenizer as tokenizer,
)
