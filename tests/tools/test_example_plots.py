"""Pictures drawn from recorded results."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from example_plots import PICTURES, main  # noqa: E402


@pytest.mark.parametrize(
    "picture", ["examples/composite_bert/curve.png", "docs/images/mean_attention.png"]
)
def test_pictures_are_drawn_from_records(tmp_path, picture):
    main([picture, "--into", str(tmp_path)])
    assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_every_picture_of_the_plots_page_and_the_examples_can_be_drawn():
    guides = [ROOT / "docs/guides/plots.md", ROOT / "docs/guides/minimal-pairs.md"]
    pages = [*guides, *(ROOT / "examples").glob("*/README.md")]
    shown = {
        (page.parent / link).resolve().relative_to(ROOT).as_posix()
        for page in pages
        for link in re.findall(r"!\[[^]]*\]\(([^)]+\.png)\)", page.read_text("utf-8"))
    }
    assert shown and shown <= set(PICTURES)
