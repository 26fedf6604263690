"""A small data folder."""

import pytest

TEXT = "the old house.\nthe river\nunder the red house\n"


@pytest.fixture
def folder(make_folder):
    return make_folder(TEXT).path
