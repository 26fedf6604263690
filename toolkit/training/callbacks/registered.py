"""Callbacks of plugins, as --callbacks selects them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CALLBACKS
from toolkit.config.sections import RunConfig
from toolkit.config.values import callback_section
from toolkit.reporting.runs import EventValue
from toolkit.reporting.sinks import Sink
from toolkit.training.callbacks.validation import Validation
from toolkit.training.step import ValidationObserver
from toolkit.training.trainer import Trainer


class CallbackContext(NamedTuple):
    """What a callback is built with, in addition to its config."""

    name: str
    trainer: Trainer
    total_updates: int
    save_dir: Path
    sink: Sink | None = None
    """None on all ranks but the main one."""

    def log(self, **values: EventValue) -> None:
        """Write an event with the callback's name and the number of updates done to metrics.jsonl
        and to dashboards; `text` is also printed.
        """
        if self.sink:
            self.sink.write(self.name, {"update": self.trainer.progress.update, **values})


def build_callbacks(
    config: RunConfig, trainer: Trainer, validation: Validation, sink: Sink | None
) -> dict[str, Any]:
    """Name in checkpoints -> callback, in the order of their calls; validation calls those that
    observe it.
    """
    folder, built = Path(config.checkpoint.save_dir), dict[str, Any]()
    for name, options in config.callbacks.items():
        context = CallbackContext(name, trainer, validation.last, folder, sink)
        callback: object = CALLBACKS[name].factory(options, context)
        if not callable(callback):
            raise ToolkitError(
                f"callback {name!r} must be callable with the Step after each update, but is a "
                f"{type(callback).__name__}. Define __call__(self, step)."
            )
        built[callback_section(name)] = callback
        if isinstance(callback, ValidationObserver):
            validation.observers.append(callback)
    return built
