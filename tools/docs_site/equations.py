"""Equations as MathML, which browsers render without a script."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

EQUATION = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>', re.S
)


def render_equations(page: str) -> str:
    """The HTML of a page with its `$...$` and `$$...$$` as MathML."""
    return EQUATION.sub(render, page)


def render(equation: re.Match[str]) -> str:
    display = "inline" if equation["open"] == "(" else "block"
    return convert(html.unescape(equation["latex"].strip()), display=display)
