"""A sequence modeling toolkit for encoders that combine convolution and self-attention.

`import toolkit` does not import torch; what needs it is imported when first used. The names in
`__all__` are stable: docs/guides/python.md describes them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import (
    register_arch,
    register_callback,
    register_criterion,
    register_format,
    register_lr_scheduler,
    register_optimizer,
    register_plot,
    register_position,
    register_task,
)

if TYPE_CHECKING:
    from toolkit.api.fit import evaluate, fit, preprocess, train
    from toolkit.data.formats.classification.split import Labels
    from toolkit.data.tokenizers.tokenizer import Tokenizer
    from toolkit.models.interface import EncoderModel, Inputs
    from toolkit.tasks.build import build_model, load_checkpoint
    from toolkit.tasks.examples import TaskDataset
    from toolkit.tasks.learner import Learner

__version__ = "0.1.0"

__all__ = [
    "EncoderModel",
    "Inputs",
    "Labels",
    "Learner",
    "TaskDataset",
    "Tokenizer",
    "ToolkitError",
    "build_model",
    "evaluate",
    "fit",
    "load_checkpoint",
    "preprocess",
    "register_arch",
    "register_callback",
    "register_criterion",
    "register_format",
    "register_lr_scheduler",
    "register_optimizer",
    "register_plot",
    "register_position",
    "register_task",
    "train",
]

_LAZY = {
    "EncoderModel": "toolkit.models.interface",
    "Inputs": "toolkit.models.interface",
    "Labels": "toolkit.data.formats.classification.split",
    "Learner": "toolkit.tasks.learner",
    "TaskDataset": "toolkit.tasks.examples",
    "Tokenizer": "toolkit.data.tokenizers.tokenizer",
    "build_model": "toolkit.tasks.build",
    "evaluate": "toolkit.api.fit",
    "fit": "toolkit.api.fit",
    "load_checkpoint": "toolkit.tasks.build",
    "preprocess": "toolkit.api.fit",
    "train": "toolkit.api.fit",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'toolkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
