"""A sequence modeling toolkit for encoders that combine convolution and self-attention.

`import toolkit` does not import torch; functions that need it are imported when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from toolkit.common.errors import ToolkitError as ToolkitError
from toolkit.common.registry import register_arch as register_arch
from toolkit.common.registry import register_criterion as register_criterion
from toolkit.common.registry import register_format as register_format
from toolkit.common.registry import register_lr_scheduler as register_lr_scheduler
from toolkit.common.registry import register_optimizer as register_optimizer
from toolkit.common.registry import register_task as register_task

__version__ = "0.1.0"

_LAZY = {
    "build_model": "toolkit.tasks.build",
    "load_checkpoint": "toolkit.tasks.load",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'toolkit' has no attribute {name!r}")
