"""Configuration files: YAML whose values stay text until the type of their option is known.

YAML 1.1 turns `no` into false and 1e-4 into text; here an unquoted scalar is null or text.
"""

from __future__ import annotations

from collections.abc import Hashable
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import yaml

from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.common.json_files import name_file
from toolkit.common.registry import suggest_name

RECIPE, SUITE, MAX_BYTES = "recipe:", "suite:", 16 << 20


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """SafeLoader (no Python objects) that guesses no types and rejects aliases and double keys."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith(":null")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        if self.check_event(yaml.events.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not read", mark)
        return super().compose_node(parent, index)

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        """Keys are text; one that is not, or that is repeated, is an error."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value in seen:
                scalar = isinstance(key, yaml.ScalarNode)
                wrong = f"{key.value} is given twice" if scalar else "a key must be text"
                raise yaml.constructor.ConstructorError(None, None, wrong, key.start_mark)
            seen.add(key.value)
            key.tag = "tag:yaml.org,2002:str"
        return super().construct_mapping(node, deep)


def read_recipes(kind: str = RECIPE) -> dict[str, str]:
    """Name -> text of every recipe, a configuration file of the package: recipe:NAME; or suite."""
    folder = files("toolkit") / f"{kind[:-1]}s"
    found = [f for f in folder.iterdir() if f.name.endswith(".yaml")]
    texts = {file.name.removesuffix(".yaml"): file.read_text("utf-8") for file in found}
    return dict(sorted(texts.items()))


def list_recipes() -> dict[str, str]:
    """Name -> summary, the comment in the first line."""
    return {name: text.splitlines()[0].lstrip("# ") for name, text in read_recipes().items()}


def read_yaml(path: str, option: str = "--config") -> dict[str, Any]:
    """The sections of a configuration file, or of `recipe:NAME`; an unreadable one is an error."""
    is_recipe = not Path(path).exists() and path in read_recipes()
    remedy = f"Write recipe:{path}." if is_recipe else "Check the path."
    try:
        with name_file(Path(path), remedy):
            tree = yaml.load(read_source(path), PlainLoader)
    except (yaml.YAMLError, RecursionError) as error:
        where = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
            where = f"line {error.problem_mark.line + 1}: {error.problem}"
        raise ToolkitError(f"{option} must name a YAML file, but {path}: {where}.") from error
    if tree is not None and not isinstance(tree, dict):
        raise ToolkitError(
            f"{option} must name a file of sections such as `data:`, but {path} holds "
            f"a {type(tree).__name__}."
        )
    return tree or {}


def read_suite(name: str, *, tunes: bool) -> dict[str, Any]:
    """The content of a suite, a file or one of the package; the latter are suggested if they
    are of the same kind: fine-tuning, or sets.
    """
    texts = read_recipes(SUITE)
    if Path(name).exists() or name in texts:
        return read_yaml(name if Path(name).exists() else SUITE + name, "--suite")
    if Path(name).suffix in (".yaml", ".yml"):
        raise ToolkitError(f"No such file: {name}.")
    known = [it for it, text in texts.items() if ("\ntasks:" in text) == tunes]
    raise ToolkitError(f"no suite is called {name!r}. {suggest_name(name, known)}")


def read_source(path: str) -> str:
    """The text of a configuration file, which may be a pipe, or of a recipe or suite."""
    for kind in (RECIPE, SUITE):
        if path.startswith(kind):
            name, known = path.removeprefix(kind), read_recipes(kind)
            if name not in known:
                hint = suggest_name(name, list(known))
                raise ToolkitError(f"no {kind[:-1]} is called {name!r}. {hint}")
            return known[name]
    with open_regular(Path(path), MAX_BYTES, allow_pipe=True) as file:
        return file.read().decode()
