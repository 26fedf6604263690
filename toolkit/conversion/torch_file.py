"""Files written by torch.save, loaded without executing code. No other module opens them.

PyTorch's weights-only loader creates tensors, plain containers and the classes of an allow-list,
and calls nothing else. The allow-list here maps the classes of fairseq's settings to OpaqueObject.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.input_files import open_regular


class OpaqueObject:
    """Placeholder for an object of another program: it stores its arguments and does nothing."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.arguments = getattr(self, "arguments", ())
        self.state = state


SETTING_CLASSES = (
    "argparse.Namespace",
    "omegaconf.dictconfig.DictConfig",
    "omegaconf.listconfig.ListConfig",
    "omegaconf.base.ContainerMetadata",
    "omegaconf.base.Metadata",
    *(f"omegaconf.nodes.{kind}Node" for kind in ("Any", "Boolean", "Enum", "Float", "Integer")),
    "omegaconf.nodes.StringNode",
    "collections.defaultdict",
    "typing.Any",
    "builtins.dict",
    "builtins.list",
    "builtins.int",
    "builtins.str",
    "builtins.float",
    "builtins.bool",
)
"""Classes of settings in fairseq's checkpoints; each is loaded as an OpaqueObject."""


def load(path: Path, *, settings: bool = False) -> Any:
    """The tensors and containers of a file; with `settings`, also OpaqueObjects."""
    allowed: list[Any] = [(OpaqueObject, name) for name in SETTING_CLASSES] if settings else []
    try:
        with (
            open_regular(path) as file,
            warnings.catch_warnings(),
            torch.serialization.safe_globals(allowed),
        ):
            warnings.simplefilter("ignore")  # about the pickle protocol of old files
            return torch.load(file, map_location="cpu", weights_only=True)
    except ToolkitError:
        raise
    except Exception as error:  # any exception that a damaged or malicious file causes
        raise ToolkitError(
            f"{path} must contain only tensors and settings, but PyTorch's weights-only loader "
            f"says: {describe_error(error)} Nothing was executed. Convert the file to "
            f"safetensors first."
        ) from error


def describe_error(error: Exception) -> str:
    """The loader's first sentence, without its advice to trust the file."""
    text = " ".join(str(error).split()) or type(error).__name__
    _, _, reason = text.rpartition("WeightsUnpickler error: ")
    return f"{reason.partition('Please use')[0].strip()[:200].removesuffix('.')}."
