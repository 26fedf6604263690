"""Read checkpoints, of which every file is verified by its digest first, and write models as such.

Nothing is unpickled.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import toolkit
from toolkit import __version__
from toolkit.checkpoints.save_folder import BEST, LAST, SaveFolder, read_manifest, verify_checkpoint
from toolkit.checkpoints.tensor_files import SHARDED, LazyTensor, open_tensors, write_tensors
from toolkit.common import plugins
from toolkit.common.errors import ToolkitError, join_first
from toolkit.common.files import atomic_file
from toolkit.common.json_files import Count, JsonError, JsonObject, convert, read_json, write_json
from toolkit.common.plugins import find_plugins
from toolkit.common.registry import CALLBACKS
from toolkit.common.system import describe_commit
from toolkit.config.command import MANIFEST
from toolkit.config.sections import RunConfig
from toolkit.config.serialize import (
    components,
    describe_run_plugins,
    diff_configs,
    from_dict,
    list_differences,
    to_dict,
    to_yaml_file,
)
from toolkit.config.values import CONFIG, missing_checkpoint_error, read_saved_config
from toolkit.data.storage.data_folder import DataFolder
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.distributed.data_parallel import local_rows, to_local
from toolkit.distributed.environment import describe_machine, installed_commit, package_versions
from toolkit.models.interface import Sizes

MODEL, OPTIMIZER = "model.safetensors", "optimizer.safetensors"
AVERAGE = "average.safetensors"
"""Moving average of the weights, if the run keeps one: the weights that are validated and used."""
EXTRA_FILE = "extra.safetensors"
"""Tensors of a converted model that its task does not use; --finetune-from reads them too."""
STATE = "state.json"
RESUME_FILES = (OPTIMIZER, f"{SHARDED}/*")
"""Patterns of the files that only resuming reads; everything else works without them."""


def find_checkpoint(path: Path, *, to_resume: bool = False) -> Path:
    """The verified checkpoint at a path, or the best or last one of the save folder there.

    The optimizer's state may have been deleted, unless training is to resume.
    """
    if path.is_file():
        raise ToolkitError(
            f"a checkpoint must be a folder that toolkit-train wrote, but {path} is a file. "
            f"It was not opened: files of other programs may run code when they are loaded."
        )
    if not path.is_dir():
        raise missing_checkpoint_error(path)
    if not (path / MANIFEST).exists():
        saves = SaveFolder(path)
        path = saves.resolve_link(BEST) or saves.resolve_link(LAST) or path
    verify_checkpoint(path, optional=() if to_resume else RESUME_FILES)
    return path


def read_config(folder: Path) -> tuple[RunConfig, Sizes]:
    """The config of a verified checkpoint's run, and the sizes of its data."""
    saved = read_saved_config(folder)
    plugins.check_loaded(saved.plugins, f"checkpoint {folder}")
    return from_dict(saved.run), Sizes(saved.sizes)


def write_config(folder: Path, config: RunConfig, sizes: Sizes) -> None:
    """Write the configuration, sizes and plugins of a checkpoint."""
    saved = {"run": to_dict(config), "sizes": sizes, "plugins": describe_run_plugins(config)}
    write_json(folder / CONFIG, saved, end="", indent=1, ensure_ascii=False)


def weights_file(folder: Path, weights: str = "auto") -> str:
    """The file of the `auto`, `trained` or `average` weights of a checkpoint."""
    has_average = AVERAGE in read_manifest(folder).files
    if weights == "average" and not has_average:
        raise ToolkitError(
            f"weights must be auto or trained for {folder}, but is average: its run kept no moving "
            f"average of them."
        )
    return AVERAGE if has_average and weights != "trained" else MODEL


def describe_base(path: Path) -> dict[str, str]:
    """What the manifest of a checkpoint of adapters says of the weights that they change."""
    folder = find_checkpoint(path)
    file, facts = weights_file(folder), read_manifest(folder)
    if facts.base:
        raise ToolkitError(
            f"adapters change complete weights, but --finetune-from {folder} holds adapters. Merge "
            f"them first: toolkit-convert export, then toolkit-convert import."
        )
    return {"folder": str(folder.resolve()), "file": file, "digest": facts.files[file]}


def open_weights(folder: Path, file: str) -> dict[str, LazyTensor]:
    """The weights of a verified checkpoint; with those of the base that its adapters change."""
    own, base = open_tensors([folder / file]), read_manifest(folder).base
    if not base:
        return own
    source = Path(base["folder"])
    if not (source / MANIFEST).exists():
        raise ToolkitError(
            f"checkpoint {folder} holds adapters only, and the checkpoint that they change, "
            f"{source}, is missing. Copy it there."
        )
    if verify_checkpoint(source, only=[base["file"]]).files[base["file"]] != base["digest"]:
        raise ToolkitError(
            f"checkpoint {folder} holds adapters of {source / base['file']}, but this file is "
            f"another one now. Restore it."
        )
    return {**open_tensors([source / base["file"]]), **own}


@torch.no_grad()
def load_weights(folder: Path, learner: nn.Module, *, file: str = MODEL) -> None:
    """Load a verified checkpoint's weights into a learner, which must match exactly."""
    saved, tensors = open_weights(folder, file), learner.state_dict()
    if read_manifest(folder).base:  # it may have other heads
        saved = {name: tensor for name, tensor in saved.items() if name in tensors}
    if problems := list_mismatches(saved, tensors):
        listed = "; ".join(f"{kind}: {names}" for kind, names in problems.items())
        raise ToolkitError(
            f"checkpoint {folder} must fit the learner, but {listed}. "
            f"Load it with the version of its architecture and task that wrote it."
        )
    for name, tensor in tensors.items():
        to_local(tensor).copy_(saved[name][local_rows(tensor)])


def check_finite(file: Path, weights: Iterable[tuple[str, Tensor]]) -> None:
    """Raise a ToolkitError if a weight is NaN or infinite: all predictions would be NaN."""
    if names := [name for name, tensor in weights if not tensor.isfinite().all()]:
        raise ToolkitError(
            f"the weights in {file} are not finite (NaN or infinity in {join_first(names)}), so "
            f"predictions would be NaN. Its training diverged: use an earlier checkpoint."
        )


def list_mismatches(
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


def check_data_matches_checkpoint(
    data: Tokenizer, folder: str, model: Tokenizer, path: str = "the checkpoint"
) -> None:
    """Raise a ToolkitError if predictions for the data in `folder` would be meaningless."""
    if difference := data.describe_difference(model):
        raise ToolkitError(
            f"the data must have the tokenizer of {path}, but that of {folder} differs: "
            f"{difference}. Run toolkit-preprocess with --tokenizer-from {path}."
        )


def write_model(
    target: Path,
    tensors: Mapping[str, Tensor],
    *,
    run: RunConfig,
    sizes: Sizes,
    tokenizer: Tokenizer,
    facts: Mapping[str, object],
    write_more: Callable[[Path], object] = lambda folder: None,
) -> None:
    """Write a new checkpoint without optimizer state; `write_more` adds files to its folder."""

    def fill(folder: Path) -> None:
        write_tensors(folder / MODEL, tensors)
        write_config(folder, run, sizes)
        tokenizer.save(folder)
        write_more(folder)

    versions = {"toolkit": __version__, "torch": torch.__version__}
    facts = {"update": 0, "epoch": 0, **facts, "versions": versions}
    SaveFolder(target.parent).write(target.name, fill, facts, replace=False)


def check_metadata(metadata: Mapping[str, object]) -> Mapping[str, object]:
    """Raise unless JSON can hold the metadata."""
    try:
        json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ToolkitError(
            f"metadata must be a mapping of text, finite numbers, lists and mappings, but "
            f"{error}. Convert its values first."
        ) from None
    return metadata


CONFIG_FILE, ENVIRONMENT_FILE = "config.yaml", "environment.json"
HEADER = "# To repeat this run: toolkit-train --config config.yaml --save-dir ANOTHER\n"
VARIABLES = ("WORLD_SIZE", "SLURM_JOB_ID", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
"""Environment variables that are recorded. Others may be secret."""
COMPARED = ("toolkit", "plugins", "packages", "cpu", "gpus", "device", "ranks")
"""Facts that are compared with those of the previous start."""


SHOWN: dict[str, Any] = {
    **{"update": Count, "time": str, "working_directory": str, "toolkit": JsonObject},
    **{"plugins": list[JsonObject], "packages": dict[str, str], "host": str, "os": str},
    **{"cpu": str, "cores": int, "gpus": list[str], "device": str, "ranks": Count},
    **{"command": str | None, "resumed_from": str | None, "memory_gib": float | None},
    "data": list[dict[str, str]] | None,
}
"""What is shown of a start -> its type; None for what older versions did not record."""


def record_start(
    folder: Path,
    config: RunConfig,
    data: DataFolder,
    environment: Mapping[str, str],
    facts: JsonObject,
) -> str:
    """Write the configuration, and append a start to the record; failing to do so is no error.

    `environment` is the device and the versions that `describe_environment` gives; `facts` are
    what else is known of the start. Returns what to tell the user: that writing failed, or the
    differences from the previous start.
    """
    try:
        with atomic_file(folder / CONFIG_FILE) as temporary:
            temporary.write_text(HEADER + to_yaml_file(config), "utf-8")
        starts = read_starts(folder)
        start = {**gather_facts(config, data, environment), **facts}
        write_json(folder / ENVIRONMENT_FILE, [*starts, start], indent=1, ensure_ascii=False)
    except (OSError, ValueError) as error:
        return f"the start of this run was not recorded: {error}"
    earlier = starts[-1] if starts else start
    old, new = ({key: it.get(key) for key in COMPARED} for it in (earlier, start))
    changed = diff_configs(old, new)
    lines = ["environment that differs from the previous start:", *list_differences(changed)]
    return "\n  ".join(lines) if changed else ""


def read_starts(folder: Path) -> list[JsonObject]:
    """The starts of the run in a save folder, oldest first; none without a record."""
    path, remedy = folder / ENVIRONMENT_FILE, "Delete it: the record is no part of the run."
    return read_json(path, list[JsonObject], remedy) if path.exists() else []


def read_complete_starts(folder: Path) -> list[JsonObject]:
    """The starts that have the fields that are shown."""
    complete = []
    for start in read_starts(folder):
        with suppress(JsonError):
            for name, kind in SHOWN.items():
                convert(start.get(name), kind)
            complete.append(start)
    return complete


def find_start(checkpoint: Path, update: int | None) -> JsonObject | None:
    """The recorded start since which a checkpoint was trained; None if there is no record."""
    try:
        starts = read_complete_starts(checkpoint.resolve().parent)
    except ToolkitError:
        return None
    earlier = [start for start in starts if start["update"] < (update or 0)]
    return next(iter([*reversed(earlier), *starts]), None)


def gather_facts(config: RunConfig, data: DataFolder, environment: Mapping[str, str]) -> JsonObject:
    """Time, code, packages, machine, environment variables and data of a run."""
    commit = installed_commit()
    source = {"commit": commit} if commit else describe_commit(Path(toolkit.__file__).parent)
    versions = {name: it for name, it in environment.items() if name not in ("toolkit", "device")}
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "working_directory": os.getcwd(),
        "toolkit": {"version": toolkit.__version__, **source},
        "plugins": describe_plugins(config),
        "packages": package_versions() | versions,
        **describe_machine(),
        "device": environment["device"],
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "data": [
            {"folder": str(source.path), "fingerprint": source.digest} for source in data.sources
        ],
    }


def describe_plugins(config: RunConfig) -> list[JsonObject]:
    """Name, digest, folder, package and commit of the plugins that a run uses."""
    observers = [CALLBACKS[name].factory for name in config.callbacks]
    return [
        {
            "name": plugin.name,
            "sha256": plugin.sha256,
            "folder": str(plugin.folder),
            **({"package": plugin.distribution} if plugin.distribution else {}),
            **describe_commit(plugin.folder),
        }
        for plugin in find_plugins([*components(config), *observers])
    ]
