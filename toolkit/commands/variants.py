"""Variants of a component of a checkpoint's run: other values of its options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.config import names
from toolkit.config.options import Option, list_options
from toolkit.config.run import ComponentConfig
from toolkit.config.values import OptionValue, Overrides, build_config


class Variant(NamedTuple):
    """A component with other values of some options."""

    options: Mapping[str, object]
    """Path of each overridden option -> its value."""
    component: ComponentConfig

    @property
    def label(self) -> str:
        return " ".join(f"{path}={value}" for path, value in self.options.items())


def list_variants(
    section: str, component: ComponentConfig, overrides: Overrides
) -> Iterator[Variant]:
    """Every combination of the values; the component itself if there are none."""
    known = {option.path: option for option in list_options(section, component.config)}
    options = [names.find_option(f"{section}.{name}", known) for name in overrides.values]
    for option in options:
        check_overridable(option, component.name)
    for combination in product(*overrides.values.values()):
        given = {
            option.path: OptionValue(text, option.flag)
            for option, text in zip(options, combination, strict=True)
        }
        config = build_config(component.config, options, given)
        values = {option.path: getattr(config, option.name) for option in options}
        yield Variant(values, ComponentConfig(component.name, config))


def check_overridable(option: Option, component: str) -> None:
    """Raise a ToolkitError for an option that the trained model depends on."""
    if option.of_model:
        raise ToolkitError(
            f"{option.flag} cannot be changed after training: it is part of the model of "
            f"--task {component}. Train a model with the other value."
        )
