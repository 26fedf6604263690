"""Values become a frozen config: OmegaConf converts each by its field's type, then merges them."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from toolkit.common.errors import ToolkitError
from toolkit.config.given import Values, read
from toolkit.config.options import Option


def build(defaults: Any, options: Sequence[Option], values: Values) -> Any:
    """The config class or instance, with the values given for its options put in its place."""
    structured = OmegaConf.structured(defaults)
    found = {o.name: read(o, values[o.path].value) for o in options if o.path in values}
    try:
        merged = OmegaConf.merge(structured, found)
    except (OmegaConfBaseException, ValueError) as error:
        raise complaint(structured, options, values) from error
    return OmegaConf.to_object(merged)


def complaint(structured: Any, options: Sequence[Option], values: Values) -> ToolkitError:
    """The first value that does not fit alone, in words."""
    for option in options:
        if option.path in values:
            value, origin = values[option.path]
            try:
                OmegaConf.merge(structured, {option.name: read(option, value)})
            except (OmegaConfBaseException, ValueError):
                return ToolkitError(
                    f"{option.path} must be {option.rule}, but is {reprlib.repr(value)} ({origin})."
                )
    raise AssertionError("each value fits alone, so all fit together")
