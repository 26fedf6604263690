"""Extracts the English prose that ships with Python: one sentence per line, a blank line
between documents. Sources: the language reference of `help()` and the standard library's
docstrings, read with `ast` (nothing is imported or executed).

    python scripts/python_prose.py FILE
"""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])")
MARKUP = re.compile(r"``?|\*\*?|:[a-z]+:")
WORD = re.compile(r"[A-Za-z]+")


def reference() -> Iterator[str]:
    """The topics of `help()`, which are chapters of the language reference."""
    from pydoc_data import topics

    yield from topics.topics.values()


def docstrings() -> Iterator[str]:
    """One document per readable module of the standard library."""
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if {"site-packages", "test", "tests", "lib2to3"} & set(path.parts):
            continue
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue  # test files that are invalid on purpose
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        texts = (ast.get_docstring(n) for n in ast.walk(tree) if isinstance(n, kinds))
        yield "\n\n".join(text for text in texts if text)


def sentences(document: str) -> Iterator[str]:
    """Sentences of paragraphs that are prose, not code or tables."""
    for paragraph in re.split(r"\n\s*\n", document):
        text = " ".join(MARKUP.sub("", paragraph).split())
        words = WORD.findall(text)
        letters = sum(map(len, words)) + len(words)
        if len(words) >= 8 and letters > 0.8 * len(text) and ">>>" not in text:
            yield from (s for s in SENTENCE_END.split(text) if len(s.split()) >= 4)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    seen: set[str] = set()
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for document in (*reference(), *docstrings()):
            fresh = [s for s in sentences(document) if s not in seen]
            seen.update(fresh)
            if len(fresh) > 1:
                out.write("\n".join(fresh) + "\n\n")


if __name__ == "__main__":
    main()
