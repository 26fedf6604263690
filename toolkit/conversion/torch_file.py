"""Files written by torch.save, loaded without executing code. No other module opens them.

PyTorch's weights-only loader creates tensors, plain containers and the classes of an allow-list,
and calls nothing else. The allow-list here maps the classes of fairseq's settings to OpaqueObject.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular

MAX_COPIES = 4
"""Maximum bytes of all tensors per byte of the file; tied weights are stored once."""


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
        text = " ".join(str(error).split()) or type(error).__name__
        reason = text.rpartition("WeightsUnpickler error: ")[2].partition("Please use")[0]
        raise ToolkitError(
            f"{path} must contain only tensors and settings, but PyTorch's weights-only loader "
            f"says: {reason.strip()[:200].removesuffix('.')}. Nothing was executed. Convert the "
            f"file to safetensors first."
        ) from error


def name_tensors(content: object, path: Path) -> dict[str, Tensor]:
    """Loaded content as tensors by name, if they are dense and the file holds their numbers.

    Tensors that share memory, such as tied weights, become separate ones.
    """
    tensors: dict[Any, Any] = content if isinstance(content, dict) else {"": content}
    wrong = [n for n, it in tensors.items() if not (isinstance(n, str) and is_dense(it))]
    if wrong:
        raise ToolkitError(
            f"{path} must contain dense tensors by name, but contains other objects "
            f"({str(wrong[0])[:80]!r}). Name a file that save_pretrained or fairseq wrote."
        )
    size, total = path.stat().st_size, sum(it.numel() * it.itemsize for it in tensors.values())
    if total > MAX_COPIES * size:
        raise ToolkitError(
            f"{path} must contain the numbers of its tensors, but has {size:,} bytes and tensors "
            f"of {total:,} bytes. Save the tensors again after .contiguous()."
        )
    users = Counter(it.untyped_storage().data_ptr() for it in tensors.values())
    return {
        name: it.clone() if users[it.untyped_storage().data_ptr()] > 1 else it
        for name, it in tensors.items()
    }


def is_dense(value: object) -> bool:
    """Whether a value is a tensor of numbers in memory."""
    return (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and not (value.is_nested or value.is_quantized or value.is_complex() or value.is_neg())
    )
