"""Recipes: configuration files of the package, `--config recipe:NAME`."""

from __future__ import annotations

from importlib.resources import files

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import suggest_name

PREFIX, SUFFIX = "recipe:", ".yaml"


def read_recipes() -> dict[str, str]:
    """Name -> text of every recipe."""
    found = [f for f in (files("toolkit") / "recipes").iterdir() if f.name.endswith(SUFFIX)]
    texts = {file.name.removesuffix(SUFFIX): file.read_text("utf-8") for file in found}
    return dict(sorted(texts.items()))


def read_recipe(name: str) -> str:
    """The text of a recipe; an unknown name is an error that lists all."""
    recipes = read_recipes()
    if name not in recipes:
        raise ToolkitError(f"no recipe is called {name!r}. {suggest_name(name, list(recipes))}")
    return recipes[name]


def list_recipes() -> dict[str, str]:
    """Name -> summary, the comment in the first line."""
    return {name: text.splitlines()[0].lstrip("# ") for name, text in read_recipes().items()}
