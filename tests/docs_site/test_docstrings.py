"""Docstrings as Markdown of the site."""

import textwrap

import pytest

griffe = pytest.importorskip("griffe", reason="the extra `docs` is not installed")

from tools.docs_site.docstrings import MarkdownDocstrings, to_markdown  # noqa: E402


def test_equations_keep_their_characters():
    markdown = pytest.importorskip("markdown")
    text = "sum_n w_n * x[i][j] <mask> *args ($1), `a_b * c`"
    shown = "sum_n w_n * x[i][j] &lt;mask&gt; *args (&#36;1), <code>a_b * c</code>"
    assert markdown.markdown(to_markdown(text)) == f"<p>{shown}</p>"


def test_indented_blocks_and_columns_become_code():
    text = "An example:\n\n    a = b_c * d\n\n    e = f\n\nThe end."
    code = "```python\na = b_c * d\n\ne = f\n```"
    assert to_markdown(text) == f"An example:\n\n{code}\n\nThe end."
    assert to_markdown("B  batch\nS  queries") == "```text\nB  batch\nS  queries\n```"


def test_lists_and_tables_stay():
    assert to_markdown("* one_two\n* three") == "* one\\_two\n* three"
    assert to_markdown("| a | b |\n|---|---|") == "| a | b |\n|---|---|"


def test_named_tuples_show_their_fields_as_a_signature(tmp_path):
    code = """
        from typing import NamedTuple

        class Pair(NamedTuple):
            first: int
            second: str | None = None

            @property
            def both(self) -> str: ...
        """
    (tmp_path / "pairs.py").write_text(textwrap.dedent(code))
    extensions = griffe.load_extensions(MarkdownDocstrings)
    package = griffe.load("pairs", search_paths=[tmp_path], extensions=extensions)
    assert [p.name for p in package["Pair"].parameters] == ["self", "first", "second"]
