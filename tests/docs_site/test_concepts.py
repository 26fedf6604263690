"""The pages on concepts name every component that they promise to list."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import toolkit.nn.attention
from toolkit.common.registry import ARCHITECTURES, CRITERIA, TASKS
from toolkit.data.samples.masking import MASKING_STRATEGIES
from toolkit.nn.attention import AttentionMap, AttentionValues, Kernel, ScoreTerm
from toolkit.nn.attention.projections import Projections

CONCEPTS = Path(__file__).resolve().parents[2] / "docs/concepts"
PARTS = (AttentionMap, AttentionValues, Kernel, Projections, ScoreTerm)


def code_of(page):
    """The words of a page's inline code."""
    text = (CONCEPTS / page).read_text(encoding="utf-8")
    return set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", text))))


@pytest.mark.parametrize("page", sorted({*CONCEPTS.glob("*.md")} - {CONCEPTS / "index.md"}))
def test_page_on_a_concept_has_a_drawing(page):
    assert re.search(r"^!\[.{40,}\]\(\.\./images/.*\.svg\)$", page.read_text("utf-8"), re.M)


def test_page_on_positions_has_every_architecture():
    families = set(ARCHITECTURES.families()) & set(ARCHITECTURES.builtins)
    assert not families - code_of("positions.md")


@pytest.mark.parametrize("names", [TASKS.builtins, CRITERIA.builtins, MASKING_STRATEGIES])
def test_page_on_objectives_has_every_task_criterion_and_masking_strategy(names):
    assert not set(names) - code_of("objectives.md")


def test_page_on_attention_has_every_part():
    exported = vars(toolkit.nn.attention).values()
    parts = [c for c in exported if inspect.isclass(c) and issubclass(c, PARTS)]
    concrete = {c.__name__ for c in parts if not inspect.isabstract(c)}
    assert not concrete - code_of("attention.md")
