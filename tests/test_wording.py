"""Words that readers stumble over stay out of documentation, help and messages.

docs/glossary.md has the terms to use instead.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
AVOIDED = {
    r"codec": "tokenizer",  # codecs is a module of Python
    r"anew": "again",
    r"(?:go|goes|going|went) on (?:with|from|where|at|after|by|in|to|training)": "resume, continue",
    r"so many": "N, this many",
    r"one's own": "your own",
    r"of (?:its|their) own(?! (?:folder|files))": "separate",
    r"told": "reported, logged; told apart: distinguished",
    r"stands?(?!\s+for)": "is",
    r"figures? of": "metrics of",
    r"behind": "after",
    r"beside": "in addition to, next to",
    r"learnt|spelt": "learned, spelled",
    r"(?:normal|initial|token|optim)is(?:e|ed|es|ing|ation)": "-ize",
    r"laws?": "strategy, distribution",
    r"in front of": "before",
    r"(?:hears?|tells?) of": "receive, report",
    r"refuses?": "reject",
    r"where there (?:is|are|was)": "if there is",
}
"""Pattern -> what to write instead."""
PATTERN = re.compile(rf"\b(?:{'|'.join(AVOIDED)})\b", re.IGNORECASE)
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/README.md")
    for path in REPOSITORY.glob(pattern)
)
MODULES = sorted((REPOSITORY / "toolkit").glob("**/*.py"))


def suggestions(text: str, start: int = 1) -> list[str]:
    """LINE: WORD, for every avoided word."""
    return [
        f"line {start + text.count(chr(10), 0, found.start())}: {found.group()}"
        for found in PATTERN.finditer(text)
    ]


def strings(module: Path) -> list[tuple[int, str]]:
    """Messages, help and docstrings of a module, with their lines."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [(node.lineno, node.value) for node in constants if isinstance(node.value, str)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_documentation_uses_the_terms_of_the_glossary(page):
    assert not suggestions(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_messages_and_docstrings_use_the_terms_of_the_glossary(module):
    assert not [word for line, text in strings(module) for word in suggestions(text, line)]


def test_avoided_word_is_reported_with_its_line():
    assert suggestions("A tokenizer.\nA Codec, made anew.") == ["line 2: Codec", "line 2: anew"]
