"""Read checkpoints: every file is verified by its digest first, and none is unpickled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from toolkit.checkpoints import manifest
from toolkit.checkpoints.save_folder import BEST, LAST, SaveFolder
from toolkit.checkpoints.tensor_files import LazyTensor, open_tensors
from toolkit.common import json_files, plugins
from toolkit.common.enumeration import join_first
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_text
from toolkit.config.run import RunConfig
from toolkit.config.serialize import describe_run_plugins, from_dict, to_dict
from toolkit.distributed.sharded_tensors import local_rows, to_local
from toolkit.models.interface import Sizes

MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
AVERAGE = "average.safetensors"
"""Moving average of the weights, if the run keeps one: the weights that are validated and used."""
EXTRA_FILE = "extra.safetensors"
"""Tensors of a converted model that its task does not use; --finetune-from reads them too."""
STATE, CONFIG = "state.json", "config.json"


def find_checkpoint(path: Path) -> Path:
    """The verified checkpoint at a path, or the best or last one of the save folder there."""
    if path.is_file():
        raise ToolkitError(
            f"a checkpoint must be a folder that toolkit-train wrote, but {path} is a file. "
            f"It was not opened: files of other programs may run code when they are loaded."
        )
    if not path.is_dir():
        raise ToolkitError(f"No such checkpoint: {path}.")
    if not (path / manifest.NAME).exists():
        saves = SaveFolder(path)
        path = saves.resolve_link(BEST) or saves.resolve_link(LAST) or path
    missing = {MODEL, CONFIG} - manifest.verify(path)["files"].keys()
    if missing:
        raise ToolkitError(
            f"checkpoint {path} must hold {', '.join(sorted(missing))}, but its manifest lists "
            f"none. Use a folder that toolkit-train wrote."
        )
    return path


def read_config(folder: Path) -> tuple[RunConfig, Sizes]:
    """The config of a verified checkpoint's run, and the sizes of its data."""
    saved = read_json(folder / CONFIG, "run", "sizes", "plugins")
    if not (
        isinstance(saved["run"], dict)
        and are_sizes(saved["sizes"])
        and are_plugins(saved["plugins"])
    ):
        raise ToolkitError(
            f"{folder / CONFIG} must hold a run, sizes and plugins that toolkit-train wrote, but "
            f"does not. Use another checkpoint."
        )
    plugins.check_loaded(saved["plugins"], f"checkpoint {folder}")
    return from_dict(saved["run"]), Sizes(**saved["sizes"])


def are_sizes(sizes: object) -> bool:
    """Whether it is a dict of numbers from 0 on, with some tokens."""
    return (
        isinstance(sizes, dict)
        and all(type(value) is int and value >= 0 for value in sizes.values())
        and sizes.get("tokens", 0) > 0
    )


def are_plugins(plugins: object) -> bool:
    """Whether it is a list of plugins, each with a name and a digest."""
    return isinstance(plugins, list) and all(
        isinstance(it, dict)
        and isinstance(it.get("name"), str)
        and isinstance(it.get("sha256"), str)
        for it in plugins
    )


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """A JSON object of a checkpoint, which must have these keys."""
    try:
        content = json_files.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or not set(keys) <= content.keys():
        raise ToolkitError(
            f"{path} must hold JSON that toolkit-train wrote, but does not. Use another checkpoint."
        )
    return content


def write_config(folder: Path, config: RunConfig, sizes: Sizes) -> None:
    """Write the configuration, sizes and plugins of a checkpoint."""
    saved = {"run": to_dict(config), "sizes": sizes, "plugins": describe_run_plugins(config)}
    (folder / CONFIG).write_text(json_files.dumps(saved, indent=1), "utf-8")


def weights_file(folder: Path, weights: str = "auto") -> str:
    """The file of the `auto`, `trained` or `average` weights of a checkpoint."""
    has_average = (folder / AVERAGE).exists()
    if weights == "average" and not has_average:
        raise ToolkitError(
            f"weights must be auto or trained for {folder}, but is average: its run kept no moving "
            f"average of them."
        )
    return AVERAGE if has_average and weights != "trained" else MODEL


@torch.no_grad()
def load_weights(folder: Path, learner: nn.Module, *, file: str = MODEL) -> None:
    """Load a verified checkpoint's weights into a learner, which must match exactly."""
    saved, tensors = open_tensors([folder / file]), learner.state_dict()
    problems = describe_mismatches(saved, tensors)
    if problems:
        raise ToolkitError(
            f"checkpoint {folder} must fit the learner, but {'; '.join(problems)}. "
            f"Load it with the version of its architecture and task that wrote it."
        )
    for name, tensor in tensors.items():
        to_local(tensor).copy_(saved[name][local_rows(tensor)])


def describe_mismatches(
    saved: Mapping[str, Tensor | LazyTensor], expected: Mapping[str, Tensor]
) -> list[str]:
    """Mismatches between saved weights and those of a learner; empty if there are none."""
    return [f"{kind}: {names}" for kind, names in compare_tensors(saved, expected).items()]


def compare_tensors(
    saved: Mapping[str, Tensor | LazyTensor], expected: Mapping[str, Tensor]
) -> dict[str, str]:
    """Names of tensors that are missing, unknown or of another shape, by kind."""
    mismatches = {
        "missing": sorted(expected.keys() - saved.keys()),
        "unknown": sorted(saved.keys() - expected.keys()),
        "of another shape": [
            f"{name} {tuple(saved[name].shape)} for {tuple(tensor.shape)}"
            for name, tensor in expected.items()
            if name in saved and saved[name].shape != tensor.shape
        ],
    }
    return {kind: join_first(names) for kind, names in mismatches.items() if names}
