"""Modules of an encoder by name: embeddings, layers.0-5, encoder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.models.interface import EncoderModel
from toolkit.nn.layers import LayerStack

RANGE = re.compile(r"(\d+)-(\d+)")
WHOLE = "encoder"
"""Names all of an encoder that has no module of this name."""


def find_modules(encoder: EncoderModel, patterns: Iterable[str]) -> list[nn.Module]:
    """The modules to freeze, as patterns name them; unknown names are an error."""
    modules: dict[str, nn.Module] = {WHOLE: encoder}
    modules |= {name: m for name, m in encoder.named_modules() if name and has_parameters(m)}
    found = []
    for pattern in patterns:
        for name in expand_ranges(pattern):
            if name not in modules:
                raise unknown_module_error(pattern, name, encoder, modules)
            found.append(modules[name])
    return found


def unknown_module_error(
    pattern: str, name: str, encoder: EncoderModel, modules: Iterable[str]
) -> ToolkitError:
    """The error for a pattern that names no module of the encoder."""
    part = next((f", parts of them such as {it}" for it in modules if "." in it), "")
    return ToolkitError(
        f"cannot freeze {pattern!r}: the encoder has no module {name!r}. Choose from "
        f"{', '.join(list_names(encoder))}{part}, or {WHOLE} for all of it."
    )


def expand_ranges(pattern: str) -> Iterator[str]:
    """layers.0-1.attention -> layers.0.attention, layers.1.attention."""
    parts: list[Sequence[str]] = []
    for part in pattern.split("."):
        if bounds := RANGE.fullmatch(part):
            first, last = int(bounds[1]), int(bounds[2])
            if first > last:
                raise ToolkitError(
                    f"the range in {pattern!r} must begin with the lower number, but begins with "
                    f"{first}. Write {pattern.replace(part, f'{last}-{first}')}."
                )
            parts.append([str(number) for number in range(first, last + 1)])
        else:
            parts.append([part])
    return (".".join(names) for names in product(*parts))


def has_parameters(module: nn.Module) -> bool:
    """Whether a module or one of its parts has parameters."""
    return any(True for _ in module.parameters())


def list_names(module: nn.Module, prefix: str = "") -> Iterator[str]:
    """The modules with parameters, each stack of layers as a range."""
    for name, child in module.named_children():
        if isinstance(child, LayerStack):
            yield f"{prefix}{name}.0" + (f"-{len(child) - 1}" if len(child) > 1 else "")
        elif any(isinstance(inner, LayerStack) for inner in child.modules()):
            yield from list_names(child, f"{prefix}{name}.")
        elif has_parameters(child):
            yield f"{prefix}{name}"
