"""Callbacks that training.callbacks selects; the options of each are a section callback.NAME."""

from __future__ import annotations

from typing import Any

from toolkit.common.registry import CALLBACKS
from toolkit.config.declared import Option, OptionType
from toolkit.config.values import OptionValues, plain_value

SECTION = "callback"
SELECTION = Option("training.callbacks", OptionType(str, is_list=True), [], "")


def callback_section(name: str) -> str:
    """Name of the section with the options of a callback."""
    return f"{SECTION}.{name}"


def selected_callbacks(values: OptionValues) -> list[str]:
    """The names of the selected callbacks, each once."""
    if SELECTION.path not in values:
        return []
    names = plain_value(SELECTION, values[SELECTION.path].value)
    return [str(name) for name in dict.fromkeys(names if isinstance(names, list) else [])]


def callback_defaults(values: OptionValues) -> dict[str, Any]:
    """Section -> default config of each selected callback."""
    return {callback_section(name): CALLBACKS[name].config for name in selected_callbacks(values)}


def keep_selected(saved: OptionValues, values: OptionValues) -> OptionValues:
    """The saved values without the options of callbacks that `values` does not select."""
    selected = tuple(f"{callback_section(name)}." for name in selected_callbacks(saved | values))
    return {
        path: value
        for path, value in saved.items()
        if path.startswith(selected) or not path.startswith(f"{SECTION}.")
    }


def drop_unknown_callbacks(values: OptionValues) -> OptionValues:
    """The values without the options of callbacks whose plugins are not loaded.

    A model can be used without the plugins that observed its training.
    """
    unknown = [name for name in selected_callbacks(values) if name not in CALLBACKS]
    if not unknown:
        return values
    known = [name for name in selected_callbacks(values) if name in CALLBACKS]
    prefixes = tuple(f"{callback_section(name)}." for name in unknown)
    kept = {path: value for path, value in values.items() if not path.startswith(prefixes)}
    return kept | {SELECTION.path: values[SELECTION.path]._replace(value=known)}
