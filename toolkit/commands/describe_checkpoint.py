"""Description of checkpoints and of their runs; their plugins need not be loaded."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from toolkit.checkpoints import manifest
from toolkit.checkpoints.load import MODEL, RESUME_FILES, STATE, weights_file
from toolkit.checkpoints.manifest import Manifest
from toolkit.checkpoints.save_folder import BEST, LAST
from toolkit.checkpoints.start_record import COMPARED, read_complete_starts
from toolkit.checkpoints.tensor_files import open_tensors, read_shapes
from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.checkpoint_defaults import CONFIG, SavedConfig, read_saved_config
from toolkit.config.serialize import flatten
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.reporting.runs import count_distinct, format_value, relevant_options, short_names
from toolkit.reporting.tables import Table
from toolkit.training.callbacks.checkpointing import SavedState, read_state
from toolkit.training.callbacks.validation import BestValidation

MIXING_WEIGHTS, MIXING_SCALE = "task.features.weights", "task.features.scale"
"""Tensors of a task with layer_mixing (toolkit/models/heads.py)."""


class SavedCheckpoint(NamedTuple):
    """The small files of a checkpoint."""

    folder: Path
    manifest: Manifest
    config: SavedConfig
    state: SavedState | None
    """None for an average or an import."""

    @property
    def run(self) -> JsonObject:
        return self.config.run

    @property
    def start(self) -> JsonObject | None:
        """How the run was started that wrote it; None if that is not recorded."""
        return find_start(self.folder, self.manifest.update)

    @property
    def shapes(self) -> dict[str, tuple[tuple[int, ...], str]] | None:
        """Name -> shape and type of each tensor; None if there is no single file with all."""
        path = self.folder / MODEL
        return read_shapes(path) if path.exists() else None


def find_checkpoint(path: Path) -> Path | None:
    """The checkpoint at a path, or the last one of a save folder; None otherwise."""
    folders = (folder for folder in (path, path / LAST) if (folder / manifest.NAME).exists())
    return next(folders, None)


def read_checkpoint(folder: Path) -> SavedCheckpoint:
    """The manifest, the configuration and the training state of a checkpoint."""
    return SavedCheckpoint(
        folder, manifest.read(folder), read_saved_config(folder), read_state(folder)
    )


def describe_checkpoint(folder: Path, *, verify: bool = False) -> dict[str, str]:
    """Name -> fact; with `verify` the digests of all files are checked, else of the small ones."""
    listed = manifest.read(folder)
    small = [name for name in (CONFIG, STATE) if name in listed.files]
    manifest.verify(folder, only=None if verify else small, optional=RESUME_FILES)
    saved = read_checkpoint(folder)
    return {
        "kind": f"checkpoint {describe_names(folder)}",
        **describe_plugins(saved),
        **describe_run(saved.run),
        "parameters": describe_parameters(saved),
        **describe_layer_mixing(saved),
        "saved at": describe_save(listed),
        **({"mean of": ", ".join(listed.averaged)} if listed.averaged else {}),
        **({"metadata": json.dumps(listed.metadata)} if listed.metadata else {}),
        **({"converted from": listed.converted} if listed.converted else {}),
        **describe_progress(saved.state),
        **describe_run_data(saved),
        "vocabulary": describe_vocabulary(saved),
        "written by": ", ".join(f"{n} {v}" for n, v in listed.versions.items()),
        **describe_start(saved.start),
        "files": ", ".join([*describe_files(folder, listed), manifest.NAME]),
        "digests": "all right" if verify else "not compared (--verify does)",
    }


def describe_files(folder: Path, listed: Manifest) -> list[str]:
    """The names of the manifest; only files that resuming reads can be missing."""
    return [name if (folder / name).exists() else f"{name} (missing)" for name in listed.files]


def checkpoint_record(folder: Path) -> JsonObject:
    """The description as a JSON event; None for unknown values."""
    saved = read_checkpoint(folder)
    shapes = saved.shapes
    return {
        "checkpoint": str(folder),
        "architecture": saved.run["arch"]["name"],
        "task": saved.run["task"]["name"],
        "seed": saved.run.get("training", {}).get("seed"),
        "update": saved.manifest.update,
        "epoch": saved.manifest.epoch,
        "reasons": saved.manifest.reasons,
        "best": best_validation(saved.state),
        "parameters": None if shapes is None else sum(math.prod(s) for s, _ in shapes.values()),
        "tensors": None if shapes is None else len(shapes),
        "precision": saved.state.precision if saved.state else None,
        "symbols": saved.config.sizes["tokens"],
        "start": saved.start,
    }


def describe_names(folder: Path) -> str:
    """The name of the checkpoint and those of links to it."""
    links = [folder.resolve().parent / name for name in (LAST, BEST)]
    names = [link.name for link in links if link.exists() and link.samefile(folder)]
    return folder.resolve().name + (f", {' and '.join(names)}" if names else "")


def describe_plugins(saved: SavedCheckpoint) -> dict[str, str]:
    """The plugins that a checkpoint needs, and whether they are loaded."""
    required = saved.config.plugins
    names = ", ".join(plugin["name"] for plugin in required)
    try:
        plugins.check_loaded(required, f"checkpoint {saved.folder}")
    except ToolkitError:
        return {
            "plugins": f"{names}, not loaded: pass the plugin's folder with --user-dir to use the "
            f"checkpoint"
        }
    return {"plugins": names} if required else {}


def describe_run(run: JsonObject) -> dict[str, str]:
    """The components and the seed of a run."""
    return {
        "architecture": describe_component(run, "arch"),
        "task": describe_component(run, "task"),
        "optimizer": f"{describe_component(run, 'optimizer')}; "
        f"{describe_component(run, 'lr_scheduler')}",
        "seed": str(run.get("training", {}).get("seed")),
    }


def describe_component(run: JsonObject, section: str) -> str:
    """Name and options of a component."""
    options = [
        f"{name} {value}"
        for name, value in run[section].items()
        if name != "name" and value is not None
    ]
    name = str(run[section]["name"])
    return f"{name} ({', '.join(options)})" if options else name


def describe_parameters(saved: SavedCheckpoint) -> str:
    """Number and types of the parameters of a checkpoint."""
    if saved.shapes is None:
        return "not in one file"
    shapes = saved.shapes.values()
    count, dtypes = sum(math.prod(shape) for shape, _ in shapes), Counter(d for _, d in shapes)
    return f"{count:,} in {len(shapes)} tensors of {', '.join(dtypes)}"


def describe_layer_mixing(saved: SavedCheckpoint) -> dict[str, str]:
    """The learned share of each layer; empty for a model that reads its last layer only."""
    if not saved.run["task"].get("layer_mixing"):
        return {}
    tensors = open_tensors([saved.folder / weights_file(saved.folder)])
    shares = tensors[MIXING_WEIGHTS][...].softmax(0).tolist()
    names = ["embeddings", *(f"layer {number}" for number in range(1, len(shares)))]
    layers = ", ".join(f"{name} {share:.1%}" for name, share in zip(names, shares, strict=True))
    return {"layer mixing": f"{layers}; scale {float(tensors[MIXING_SCALE][...]):.3g}"}


def describe_save(listed: Manifest) -> str:
    """When and why a checkpoint was written."""
    reasons = ", ".join(listed.reasons) or "unknown"
    return f"update {listed.update}, epoch {listed.epoch}, reasons: {reasons}"


def best_validation(state: SavedState | None) -> BestValidation | None:
    """The best validation in a training state; None without one."""
    validation = state.validation if state else None
    return validation.best if validation else None


def describe_progress(state: SavedState | None) -> dict[str, str]:
    """Best metric so far, precision and ranks; empty without a state."""
    if state is None:
        return {}
    facts = {}
    if best := best_validation(state):
        facts["best"] = f"{best['metric']} {best['value']:.4f} at update {best['update']}"
    plural = "s" * (state.ranks != 1)
    return {**facts, "trained in": f"{state.precision} on {state.ranks} rank{plural}"}


def describe_run_data(saved: SavedCheckpoint) -> dict[str, str]:
    """The run's data; empty for a checkpoint that no run wrote."""
    folders = " ".join(saved.run.get("data", {}).get("dirs", []))
    examples = saved.state.data.examples if saved.state else ""
    if not folders and not examples:
        return {}
    return {"data": folders + (f", fingerprint of examples {examples[:16]}" if examples else "")}


def describe_vocabulary(saved: SavedCheckpoint) -> str:
    """Size, kind and fingerprint of the vocabulary of a checkpoint."""
    tokenizer, sizes = Tokenizer.load(saved.folder), saved.config.sizes
    target = f" (source), {sizes['targets']:,} (target)" if sizes.get("targets") else ""
    fingerprint = tokenizer.vocabulary.fingerprint[:16]
    return f"{sizes['tokens']:,} symbols{target}, {tokenizer.kind}, fingerprint {fingerprint}"


def find_start(checkpoint: Path, update: int | None) -> JsonObject | None:
    """The recorded start since which a checkpoint was trained; None if there is no record."""
    try:
        starts = read_complete_starts(checkpoint.resolve().parent)
    except ToolkitError:
        return None
    earlier = [start for start in starts if start["update"] < (update or 0)]
    return next(iter([*reversed(earlier), *starts]), None)


def describe_start(start: JsonObject | None) -> dict[str, str]:
    """Name -> fact, such as the command line and the commit; empty without a record."""
    if not start:
        return {}
    origin = start.get("resumed_from")
    resumed = f", resumed from {origin}" if origin else ""
    code = [{"name": "toolkit", **start["toolkit"]}, *start["plugins"]]
    return {
        "command": start.get("command") or "none: started from Python",
        "started": f"{start['time']} in {start['working_directory']}{resumed}",
        "code": "; ".join(map(describe_code, code)),
        "packages": ", ".join(f"{name} {version}" for name, version in start["packages"].items()),
        "machine": describe_machine(start),
    }


def describe_code(code: JsonObject) -> str:
    """ "toolkit 0.1.0, commit 1a2b3c with uncommitted changes"."""
    name = " ".join(str(code[key]) for key in ("name", "version") if key in code)
    package = f", package {code['package']}" if "package" in code else ""
    if "commit" not in code:
        return f"{name}{package}, {code.get('no_commit')}"
    changes = " with uncommitted changes" if code.get("uncommitted_changes") else ""
    return f"{name}{package}, commit {code['commit']}{changes}"


def describe_machine(start: JsonObject) -> str:
    """Host, processors, GPUs and ranks of a run, in one line."""
    ranks, memory = start["ranks"], start.get("memory_gib")
    parts = [
        f"{start['host']} ({start['os']})",
        f"{start['cores']} cores of {start['cpu']}" + (f", {memory} GiB" if memory else ""),
        *start["gpus"],
        f"{ranks} rank{'s' * (ranks != 1)} on {start['device']}",
    ]
    return "; ".join(map(str, parts))


def compare_runs(checkpoints: Sequence[Path]) -> dict[str, list[object]]:
    """Option, or fact about code and machine -> its values in each run, if they differ.

    Left out are names of folders, options of logging, and those that only some of the runs have.
    """
    runs = [compared_facts(checkpoint) for checkpoint in checkpoints]
    shared = [name for name in runs[0] if all(name in run for run in runs)]
    differing = [name for name in shared if count_distinct(runs, name) > 1]
    return {name: [run[name] for run in runs] for name in differing}


def compared_facts(checkpoint: Path) -> JsonObject:
    """The options of a checkpoint's run, and the facts of its start to compare."""
    saved = read_checkpoint(checkpoint)
    start = saved.start or {}
    return relevant_options(saved.run) | flatten({key: start.get(key, "") for key in COMPARED})


def differences_table(differences: Mapping[str, Sequence[object]], paths: Sequence[str]) -> Table:
    """A row for each option, a column for each run."""
    rows = [[name, *map(format_value, values)] for name, values in differences.items()]
    return Table(columns=["differs in", *short_names(paths)], rows=rows)
