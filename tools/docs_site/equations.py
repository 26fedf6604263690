"""Equations as MathML, which browsers render without a script."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

EQUATION = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>', re.S
)
FUNCTION = re.compile(r'<mo(?: movablelimits="true")?>(?P<name>[A-Za-z]+)</mo>')
UNKNOWN = re.compile(r"\\\w+|<mi>&(?:amp;)?</mi>")
BAR = re.compile(r'<mo(?: stretchy="false")?>(?P<bar>&#x0007C;|&#x02016;)</mo>')
ASTERISK, CENTERED_ASTERISK = "&#x0002A;", "&#x2217;"
SPACE = '<mspace width="0.167em" />'
NAME = r"<mi>(?:log|exp|sin|cos|max|min)</mi>"
BEFORE_ARGUMENT = re.compile(rf"({NAME}(?:<mi>[a-z]</mi></msub>)?)(?=<m)")
BEFORE_NAME = re.compile(r"(</mi>|</msub>|&#x00029;</mo>)(?=(?:<msub>)?<mi>[A-Za-z]{2,}</mi>)")


def render_equations(page: str) -> str:
    """The HTML of a page with its `$...$` and `$$...$$` as MathML."""
    return EQUATION.sub(render, page)


def render(equation: re.Match[str]) -> str:
    display = "inline" if equation["open"] == "(" else "block"
    latex = html.unescape(equation["latex"].strip())
    mathml = convert(latex, display=display)
    if found := UNKNOWN.search(mathml):
        raise ValueError(f"{found[0]} is not converted to MathML in the equation {latex}")
    return set_spaces(mathml)


def set_spaces(mathml: str) -> str:
    """Names of functions are identifiers with a space before them and before a bare argument.

    Bars of absolute values and norms have no spaces, and do not stretch. Asterisks are operators.
    """
    mathml = mathml.replace(ASTERISK, CENTERED_ASTERISK)
    mathml = BAR.sub(r'<mo stretchy="false" lspace="0" rspace="0">\g<bar></mo>', mathml)
    named = BEFORE_NAME.sub(rf"\1{SPACE}", FUNCTION.sub(r"<mi>\g<name></mi>", mathml))
    return BEFORE_ARGUMENT.sub(rf"\1{SPACE}", named).replace(f"{SPACE}<mo", "<mo")
