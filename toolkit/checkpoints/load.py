"""Reading a checkpoint: every file is compared with its digest first, and none is unpickled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from toolkit.checkpoints import manifest, tensor_files
from toolkit.checkpoints.save_folder import BEST, LAST, SaveFolder
from toolkit.common import json_files, plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_text
from toolkit.config.run import RunConfig
from toolkit.config.serialize import from_dict, plugins_of, to_dict
from toolkit.data.tokenizers.tokenizer import Codec
from toolkit.distributed.fsdp import local, own_rows
from toolkit.models.interface import Sizes
from toolkit.tasks.build import build_learner
from toolkit.tasks.task import Learner

MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
AVERAGE = "average.safetensors"
"""The moving average of the weights, where a run keeps one: what it validates and others use."""
SPARE = "spare.safetensors"
"""What a converted model has beside its learner's weights; --finetune-from looks here too."""
STATE, CONFIG = "state.json", "config.json"


def load_checkpoint(path: str | Path, *, weights: str = "auto") -> Learner:
    """The learner of a checkpoint, or of the best one in a save folder, ready to call.

    It is in evaluation mode and brings its codec; no data folder is needed. `weights` is auto,
    trained or average: auto is the moving average where the run kept one, which is also what it
    validated.
    """
    folder = find(Path(path))
    config, sizes = read_config(folder)
    learner = build_learner(config.arch, config.task, sizes)
    load_weights(folder, learner, file=weights_file(folder, weights))
    learner.codec = Codec.load(folder)
    return learner.eval()


def find(path: Path) -> Path:
    """The checkpoint folder that a path means, verified."""
    if path.is_file():
        raise ToolkitError(
            f"a checkpoint must be a folder that toolkit-train wrote, but {path} is a file. "
            f"It was not opened: files of other programs may run code when they are loaded."
        )
    if not path.is_dir():
        raise ToolkitError(
            f"a checkpoint must be a folder that is there, but {path} is not. Check its name."
        )
    if not (path / manifest.NAME).exists():
        saves = SaveFolder(path)
        path = saves.target(BEST) or saves.target(LAST) or path
    missing = {MODEL, CONFIG} - manifest.verify(path)["files"].keys()
    if missing:
        raise ToolkitError(
            f"checkpoint {path} must hold {', '.join(sorted(missing))}, but its manifest lists "
            f"none. Use a folder that toolkit-train wrote."
        )
    return path


def read_config(folder: Path) -> tuple[RunConfig, Sizes]:
    """The run that a verified checkpoint is of, and the sizes of its data."""
    saved = read_json(folder / CONFIG, "run", "sizes", "plugins")
    if not (isinstance(saved["run"], dict) and sized(saved["sizes"]) and named(saved["plugins"])):
        raise ToolkitError(
            f"{folder / CONFIG} must hold a run, sizes and plugins that toolkit-train wrote, but "
            f"holds other things. Use another checkpoint."
        )
    plugins.check(saved["plugins"], f"checkpoint {folder}")
    return from_dict(saved["run"]), Sizes(**saved["sizes"])


def sized(sizes: Any) -> bool:
    """Whether it is a table of Sizes: its fields, and natural numbers."""
    known = {field.name for field in fields(Sizes)}
    return (
        isinstance(sizes, dict)
        and {"tokens"} <= sizes.keys() <= known
        and all(type(value) is int and value >= 0 for value in sizes.values())
        and sizes["tokens"] > 0
    )


def named(found: Any) -> bool:
    """Whether it is a list of plugins, each with a name and a digest."""
    return isinstance(found, list) and all(
        isinstance(it, dict)
        and isinstance(it.get("name"), str)
        and isinstance(it.get("sha256"), str)
        for it in found
    )


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """A JSON file of a checkpoint, with the keys that it must have."""
    try:
        found = json_files.loads(read_text(path))
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not set(keys) <= found.keys():
        raise ToolkitError(f"{path} must hold JSON that toolkit-train wrote, but does not.")
    return found


def write_config(folder: Path, config: RunConfig, sizes: Sizes) -> None:
    saved = {"run": to_dict(config), "sizes": asdict(sizes), "plugins": plugins_of(config)}
    (folder / CONFIG).write_text(json_files.dumps(saved, indent=1), "utf-8")


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        tensor_files.check(path)
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise ToolkitError(f"{path} must hold safetensors, but does not: {error}.") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path)
    tensor_files.check(path)


def weights_file(folder: Path, weights: str = "auto") -> str:
    """Which tensors of a checkpoint `auto`, `trained` or `average` weights are."""
    there = (folder / AVERAGE).exists()
    if weights == "average" and not there:
        raise ToolkitError(
            f"weights must be auto or trained for {folder}, but is average, and its run kept no "
            f"moving average. Leave it out."
        )
    return AVERAGE if there and weights != "trained" else MODEL


@torch.no_grad()
def load_weights(folder: Path, learner: Learner, *, file: str = MODEL) -> None:
    """Give the learner exactly the weights of a verified checkpoint."""
    saved, own = tensor_files.opened([folder / file]), learner.state_dict()
    problems = mismatches(saved, own)
    if problems:
        raise ToolkitError(
            f"checkpoint {folder} must fit the learner, but {'; '.join(problems)}. "
            f"It was written by another version of its architecture or task."
        )
    for name, tensor in own.items():
        local(tensor).copy_(saved[name][own_rows(tensor)])


def mismatches(
    saved: Mapping[str, Tensor | tensor_files.Rows], own: Mapping[str, Tensor]
) -> list[str]:
    """What keeps saved weights from being this learner's, in words."""
    return [f"{kind}: {names}" for kind, names in differences(saved, own).items()]


def differences(
    saved: Mapping[str, Tensor | tensor_files.Rows], own: Mapping[str, Tensor]
) -> dict[str, str]:
    """The tensors that are missing, unknown and of another shape."""
    other = [name for name in own if name in saved and saved[name].shape != own[name].shape]
    shapes = [f"{n} {tuple(saved[n].shape)} for {tuple(own[n].shape)}" for n in other]
    found = {
        "missing": sorted(own.keys() - saved.keys()),
        "unknown": sorted(saved.keys() - own.keys()),
        "of another shape": shapes,
    }
    return {kind: some(names) for kind, names in found.items() if names}


def some(names: Sequence[str], most: int = 5) -> str:
    """The first few, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")
