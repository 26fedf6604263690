"""Files that torch.save wrote: the one place that opens them, and no code of theirs is run.

torch's weights-only loader is an interpreter of its own: it makes tensors, plain containers and
what an allow-list names, and calls nothing else. The list here holds one class, which does nothing,
under the names of what fairseq keeps beside its tensors.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import open_untrusted


class OpaqueObject:
    """Stands for an object of another program: keeps what it was made of, and does nothing."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
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
"""Names in fairseq's checkpoints that stand for settings; each is read as an Inert."""


def load(path: Path, *, settings: bool = False) -> Any:
    """The tensors and containers of a file; with `settings`, fairseq's settings too, inert."""
    known: list[Any] = [(OpaqueObject, name) for name in SETTING_CLASSES] if settings else []
    try:
        with (
            open_untrusted(path, max_bytes=None) as file,
            warnings.catch_warnings(),
            torch.serialization.safe_globals(known),
        ):
            warnings.simplefilter("ignore")  # about the pickle protocol of old files
            return torch.load(file, map_location="cpu", weights_only=True)
    except ToolkitError:
        raise
    except Exception as error:  # whatever a damaged or hostile file makes it raise
        raise ToolkitError(
            f"{path} must hold tensors and settings alone, but torch's weights-only loader says: "
            f"{describe_error(error)} Nothing of it was run. Convert it to safetensors where it is "
            "trusted."
        ) from error


def describe_error(error: Exception) -> str:
    """The loader's first sentence, without its advice on how to trust the file."""
    text = " ".join(str(error).split()) or type(error).__name__
    _, _, told = text.rpartition("WeightsUnpickler error: ")
    return f"{told.partition('Please use')[0].strip()[:200].removesuffix('.')}."
