"""Configuration files: YAML whose values stay text until the type of their option is known.

YAML 1.1 turns `no` into false and 1e-4 into text; here an unquoted scalar is null or text.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml

from toolkit.common.errors import ToolkitError
from toolkit.common.input_files import open_regular
from toolkit.config.command import Command
from toolkit.config.recipes import PREFIX, list_recipes, read_recipe
from toolkit.config.values import OptionValue, OptionValues, check_plain


def flatten_sections(nested: Mapping[str, object], command: Command, origin: str) -> OptionValues:
    """{arch: {name: taco, layers: 2}} -> arch.name, arch.layers; `arch: taco` is its name alone.

    An empty section sets nothing.
    """
    sections = {*command.components, *command.fixed_sections()} - {""}
    values: OptionValues = {}
    for section, value in nested.items():
        if isinstance(value, Mapping):
            values |= {f"{section}.{key}": OptionValue(item, origin) for key, item in value.items()}
        elif value is not None or section not in sections:
            path = f"{section}.name" if section in command.components else str(section)
            values[path] = OptionValue(value, origin)
    for path, (item, _) in values.items():
        check_plain(path, item)
    return values


MAX_BYTES = 16 << 20


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


def read_yaml(path: str) -> dict[str, Any]:
    """The sections of a configuration file, or of `recipe:NAME`; an unreadable one is an error."""
    try:
        recipe = path.removeprefix(PREFIX) if path.startswith(PREFIX) else None
        text = read_file(path) if recipe is None else read_recipe(recipe)
        tree = yaml.load(text, PlainLoader)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        remedy = f"Write recipe:{path}" if path in list_recipes() else "Check the path"
        raise ToolkitError(f"Cannot read --config {path}: {reason}. {remedy}.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ToolkitError(
            f"--config must name a YAML file, but {path}: {describe_yaml_error(error)}."
        ) from error
    if tree is not None and not isinstance(tree, dict):
        raise ToolkitError(
            f"--config must name a file of sections such as `data:`, but {path} holds "
            f"a {type(tree).__name__}."
        )
    return tree or {}


def read_file(path: str) -> str:
    """The text of a configuration file, which may be a pipe."""
    with open_regular(Path(path), MAX_BYTES, allow_pipe=True) as file:
        return file.read().decode()


def describe_yaml_error(error: Exception) -> str:
    """The line and the problem of a YAML error, in one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    return " ".join(str(error).split()) or type(error).__name__
