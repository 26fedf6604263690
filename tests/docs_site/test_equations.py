"""Equations of the documentation become MathML."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("latex2mathml", reason="the extra `docs` is not installed")

from tools.docs_site.equations import render_equations

CODE = re.compile(r"<(pre|code|script|style)\b.*?</\1>", re.S)


def inline(latex):
    return render_equations(rf'<span class="arithmatex">\({latex}\)</span>')


def test_unknown_command_is_an_error():
    with pytest.raises(ValueError, match=r"\\nosuch is not converted to MathML in the equation a"):
        inline(r"a \nosuch b")


@pytest.mark.slow
def test_every_equation_of_the_site_is_rendered(site):
    pages, equations = 0, 0
    for page in site.glob("**/index.html"):
        text = CODE.sub("", page.read_text(encoding="utf-8"))
        pages, equations = pages + 1, equations + text.count("<math")
        unrendered = re.findall(r"arithmatex|\\[(\[]|\$[^$<>\n]{1,80}\$", text)
        assert not unrendered, page.relative_to(site)
    assert pages > 20 and equations > 0


@pytest.mark.slow
def test_the_site_has_the_font_of_equations(site):
    style = (site / "stylesheets/site.css").read_text(encoding="utf-8")
    for file in re.findall(r'url\("([^"]+)"\)', style):
        assert (site / "stylesheets" / file).stat().st_size > 1000
