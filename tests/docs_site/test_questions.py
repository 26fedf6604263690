"""What newcomers type into the search of the site leads them to the page that answers it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")

from tests.docs_site.search import SiteSearch

FILE = Path(__file__).with_name("questions.yaml")
QUESTIONS: dict[str, str] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
SHOWN = 3
"""Pages that are seen without scrolling."""
pytestmark = pytest.mark.slow  # builds the site


@pytest.fixture(scope="module")
def search(site):
    return SiteSearch(site)


def test_sections_that_answer_exist(search):
    assert not set(QUESTIONS.values()) - search.sections.keys()


@pytest.mark.parametrize("question", QUESTIONS)
def test_page_is_among_the_first_three(search, question):
    found = dict.fromkeys(location.partition("#")[0] for location in search.search(question))
    assert QUESTIONS[question].partition("#")[0] in list(found)[:SHOWN]
