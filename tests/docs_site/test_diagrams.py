"""Diagrams of the documentation name what is there."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.test_structure import LEVELS
from toolkit.nn.attention import Attention, Content, LinearProjections, SoftmaxMap

IMAGES = Path(__file__).resolve().parents[2] / "docs/images"
SVG = "{http://www.w3.org/2000/svg}"


def texts(element, name):
    """The texts of a class in an image."""
    return [e.text for e in element.iter() if e.get("class") == name]


def test_architecture_diagram_has_the_packages_in_their_levels():
    image = ElementTree.parse(IMAGES / "architecture.svg").getroot()
    rows = [g for g in image.iter(f"{SVG}g") if g.get("class") == "level"]
    assert [set(texts(row, "package")) for row in reversed(rows)] == LEVELS


def test_steps_of_the_architecture_diagram_are_the_numbers_of_the_packages():
    image = ElementTree.parse(IMAGES / "architecture.svg").getroot()
    rows = [g for g in image.iter(f"{SVG}g") if g.get("class") == "level"]
    numbers = sorted(int(n) for row in rows for n in texts(row, "number"))
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(texts(image, "number")) == 2 * len(numbers)


def test_attention_diagram_has_the_parts_of_attention():
    image = ElementTree.parse(IMAGES / "attention-parts.svg").getroot()
    attention = Attention(8, LinearProjections(8, 2), SoftmaxMap(Content(4)))
    assert set(texts(image, "attribute")) == {name for name, _ in attention.named_children()}
