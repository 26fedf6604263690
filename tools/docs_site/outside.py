"""Pages of the site that are not in docs/, because people read them elsewhere too."""

from __future__ import annotations

from pathlib import Path

OUTSIDE_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "results/index.md",
    "examples/composite_bert/README.md": "results/composite_bert.md",
    "examples/taco/README.md": "results/taco.md",
    "examples/convbert/README.md": "results/convbert.md",
    "examples/conv_san/README.md": "results/conv_san.md",
    "examples/glue/README.md": "results/glue.md",
    "examples/tagging/README.md": "results/tagging.md",
    "examples/translation/README.md": "results/translation.md",
    "examples/language_modeling/README.md": "results/language_modeling.md",
    "examples/positions/README.md": "results/positions.md",
    "examples/ties/README.md": "results/ties.md",
    "examples/babylm/README.md": "results/babylm.md",
    "examples/plugin/README.md": "results/plugin.md",
    "examples/reviews_plugin/README.md": "results/reviews_plugin.md",
    "benchmarks/README.md": "results/benchmarks.md",
}
"""File in the repository -> page of the site."""

SOURCES = {page: source for source, page in OUTSIDE_PAGES.items()}


def site_path(source: str) -> str | None:
    """Path in the site of a file of the repository; None if the site does not have it."""
    if source in OUTSIDE_PAGES:
        return OUTSIDE_PAGES[source]
    if source.startswith("docs/"):
        return source.removeprefix("docs/")
    is_image = source.startswith("examples/") and source.endswith((".png", ".svg"))
    return "results/" + source.removeprefix("examples/") if is_image else None


def list_images(repository: Path) -> dict[str, str]:
    """Images of the examples -> their paths in the site."""
    found = sorted([*repository.glob("examples/**/*.png"), *repository.glob("examples/**/*.svg")])
    names = [path.relative_to(repository).as_posix() for path in found]
    return {name: path for name in names if (path := site_path(name))}
