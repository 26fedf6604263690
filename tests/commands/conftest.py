"""Fixtures that tests of commands share with those of data."""

from tests.data.conftest import column as column
from tests.data.conftest import make_folder as make_folder
from tests.data.conftest import model_file as model_file
from tests.data.conftest import random_prose as random_prose
from tests.data.conftest import tokenizer as tokenizer
