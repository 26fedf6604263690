"""A page per package with its public classes and functions, for maintainers.

Names that a page of `docs/reference/python` documents are links to that page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import griffe

FOLDER = "reference/python/modules"
DIRECTIVE = re.compile(r"^::: (\S+)$", re.M)
MAX_DEPTH = 2
"""Packages below toolkit that have a page; a page includes the packages inside."""


@cache
def load_package(repository: Path) -> griffe.Module:
    """The package from its source: nothing is imported."""
    package = griffe.load("toolkit", search_paths=[repository], allow_inspection=False)
    assert isinstance(package, griffe.Module)
    return package


def module_pages(repository: Path) -> dict[str, str]:
    """Path in the site -> Markdown of every page, the index included."""
    package, documented = load_package(repository), read_documented(repository)
    pages = {page_name(each): each for each in list_packages(package)}
    index = ["# Modules", "", INTRODUCTION, "", "| package | content |", "|---|---|"]
    index += [f"| [`{each.path}`]({name}) | {summary(each)} |" for name, each in pages.items()]
    texts = {name: render_page(each, documented) for name, each in pages.items()}
    texts = {"index.md": f"{HIDDEN}{chr(10).join(index)}\n", **texts}
    return {f"{FOLDER}/{name}": text for name, text in texts.items()}


HIDDEN = "---\nsearch: {exclude: true}\n---\n\n"
INTRODUCTION = (
    "Every public class and function of the package, for maintainers. These names may change; "
    "the [stable names](../index.md) do not. The search of the site leaves these pages out."
)


def read_documented(repository: Path) -> set[str]:
    """Paths of the objects that pages of `docs/reference/python` document."""
    package, found = load_package(repository), set()
    for page in sorted((repository / "docs/reference/python").glob("*.md")):
        for path in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            found.add(package[path.removeprefix("toolkit.")].canonical_path)
    return found


def list_packages(module: griffe.Module, depth: int = 0) -> Iterator[griffe.Module]:
    """The packages that have a page, outer ones first."""
    for package in inner_modules(module):
        if package.is_subpackage:
            yield package
            if depth + 1 < MAX_DEPTH:
                yield from list_packages(package, depth + 1)


def inner_modules(module: griffe.Module) -> list[griffe.Module]:
    """The modules in a package by name, without those that it imports."""
    members = [member for _, member in sorted(module.members.items()) if not member.is_alias]
    return [member for member in members if isinstance(member, griffe.Module)]


def page_name(package: griffe.Module) -> str:
    return f"{package.path.removeprefix('toolkit.')}.md"


def summary(module: griffe.Module) -> str:
    """First line of the docstring."""
    return module.docstring.value.partition("\n")[0] if module.docstring else ""


def render_page(package: griffe.Module, documented: set[str]) -> str:
    """Markdown with a directive of mkdocstrings for each module."""
    modules = list(list_modules(package, package.path.count(".")))
    parts = [render_module(module, documented, is_page=module is package) for module in modules]
    return f"{HIDDEN}# {package.path}\n\n" + "\n".join(parts)


def list_modules(module: griffe.Module, depth: int) -> Iterator[griffe.Module]:
    """The module, and those inside it that have no page of their own."""
    yield module
    for inner in inner_modules(module):
        if not inner.is_subpackage or depth >= MAX_DEPTH:
            yield from list_modules(inner, depth + 1)


def render_module(module: griffe.Module, documented: set[str], is_page: bool) -> str:
    """The directive of a module; the title of a page is the heading of its package."""
    names = [member.path for member in public_members(module)]
    shown = [path.rpartition(".")[2] for path in names if path not in documented]
    elsewhere = ", ".join(f"[`{p.rpartition('.')[2]}`][{p}]" for p in names if p in documented)
    options = {
        "heading_level": "2",
        "members": f"[{', '.join(shown)}]",
        "show_root_full_path": "true",
        "show_root_heading": str(not is_page).lower(),
    }
    given = [f"      {name}: {value}" for name, value in options.items()]
    lines = [f"::: {module.path}", "    options:", *given, ""]
    return "\n".join([*lines, *([f"Documented separately: {elsewhere}.", ""] if elsewhere else [])])


def public_members(module: griffe.Module) -> list[griffe.Object]:
    """Public classes and functions that a module defines, in the order of its source."""
    own = [member for member in module.members.values() if not member.is_alias]
    shown = [m for m in own if (m.is_class or m.is_function) and not m.name.startswith("_")]
    return [member for member in shown if isinstance(member, griffe.Object)]
