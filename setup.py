"""The README for package indexes; everything else about the package is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import setup

FOLDER = Path(__file__).parent
LINK = re.compile(r"(?P<start>!?\[[^\]]*\]\(|\)\]\()(?P<path>(?!\w+:|#)[^)\s]+)")
"""The target of a link, of an image, or of a link around an image."""


def absolute_links(readme: str, version: str) -> str:
    """Links and images as addresses of this version's files, as an index has only the text."""
    repository = "https://github.com/toolkit-seq/toolkit"

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link["start"].startswith("!") else "blob"
        return f"{link['start']}{repository}/{kind}/v{version}/{link['path']}"

    return LINK.sub(absolute, readme)


def read_version() -> str:
    project = (FOLDER / "pyproject.toml").read_text("utf-8")
    return re.findall(r'^version = "(.+)"$', project, re.M)[0]


if __name__ == "__main__":
    setup(
        long_description=absolute_links((FOLDER / "README.md").read_text("utf-8"), read_version()),
        long_description_content_type="text/markdown",
    )
