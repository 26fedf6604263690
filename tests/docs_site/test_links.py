"""Links of the pages lead to pages of the site, or to files on the Web."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.docs_site.links import rewrite_links
from tools.docs_site.outside import OUTSIDE_PAGES, list_images, site_path

REPOSITORY = Path(__file__).resolve().parents[2]
WEB = "https://example.org/repository"


@pytest.mark.parametrize(
    ("page", "link", "target"),
    [
        ("guides/training.md", "optimizers.md#stopping", "optimizers.md#stopping"),
        ("guides/data.md", "../reference/formats.md", "../reference/formats.md"),
        ("guides/data.md", "../../examples/taco/README.md", "../results/taco.md"),
        ("index.md", "../examples/README.md", "results/index.md"),
        ("guides/data.md", "../../scripts/docs.sh", f"{WEB}/blob/main/scripts/docs.sh"),
        ("results/index.md", "taco/README.md#runs", "taco.md#runs"),
        ("results/taco.md", "../../docs/concepts/taco.md", "../concepts/taco.md"),
        ("contributing.md", "docs/glossary.md", "glossary.md"),
        ("faq.md", "https://pytorch.org", "https://pytorch.org"),
        ("faq.md", "#a-section", "#a-section"),
    ],
)
def test_link_of_a_page_leads_to_the_page_of_the_site(page, link, target):
    assert rewrite_links(f"See [it]({link}).", page, WEB) == f"See [it]({target})."


def test_code_blocks_keep_their_brackets():
    text = "[a](b.md)\n\n```python\nheads[0](x.md)\n```\n"
    assert "heads[0](x.md)" in rewrite_links(text, "guides/data.md", WEB)


def test_pages_from_other_folders_exist():
    assert [source for source in OUTSIDE_PAGES if (REPOSITORY / source).is_file()] == [
        *OUTSIDE_PAGES
    ]


def test_images_of_examples_are_next_to_their_pages(tmp_path):
    folder = tmp_path / "examples" / "taco"
    folder.mkdir(parents=True)
    for name in ("curve.svg", "curve.png", "runs.jsonl"):
        (folder / name).touch()
    assert list_images(tmp_path) == {
        "examples/taco/curve.png": "results/taco/curve.png",
        "examples/taco/curve.svg": "results/taco/curve.svg",
    }
    assert site_path("examples/taco/runs.jsonl") is None
