"""toolkit-inspect: descriptions of checkpoints and of their runs; plugins need not be loaded."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from toolkit.analysis.flops import checkpoint_flops, print_flops, run_flops
from toolkit.checkpoints.load import MODEL, RESUME_FILES, STATE, weights_file
from toolkit.checkpoints.save_folder import (
    BEST,
    LAST,
    Manifest,
    read_manifest,
    verify_checkpoint,
)
from toolkit.checkpoints.start_record import COMPARED, read_complete_starts
from toolkit.checkpoints.tensor_files import open_tensors, read_shapes
from toolkit.commands.describe_data import describe_data
from toolkit.commands.word_order import show_word_order
from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.config.command import MANIFEST, format_columns
from toolkit.config.commands.checkpoints import FlopsConfig, InspectConfig
from toolkit.config.load import LoadedConfig
from toolkit.config.serialize import flatten
from toolkit.config.values import (
    CONFIG,
    SavedConfig,
    locate_checkpoint,
    read_saved_config,
)
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.reporting.console import Output
from toolkit.reporting.runs import count_distinct, format_value, relevant_options, short_names
from toolkit.reporting.tables import Table
from toolkit.training.callbacks.checkpointing import SavedState, read_state
from toolkit.training.callbacks.validation import BestValidation

MIXING_WEIGHTS, MIXING_SCALE = "task.features.weights", "task.features.scale"
"""Tensors of a task with layer_mixing (toolkit/models/heads.py)."""


def inspect(c: InspectConfig) -> None:
    """Print facts about each path, or what checkpoints lose without the order of words."""
    with Output(c.json) as output:
        if c.word_order:
            show_word_order(c, output)
        if c.word_order and not (c.verify or c.examples or c.flops):
            return
        found = {path: locate_checkpoint(Path(path), LAST) for path in c.paths}
        checkpoints = {path: folder for path, folder in found.items() if folder}
        for index, path in enumerate(c.paths):
            paragraphs = describe_path(path, checkpoints.get(path), c, output)
            print("\n" * (index > 0) + "\n\n".join(paragraphs), file=output.text_stream)
            if c.flops:
                if path not in checkpoints:
                    raise ToolkitError(
                        f"toolkit-inspect --flops needs a checkpoint, but {path} is none. With "
                        f"--arch NAME, a data folder gives the vocabulary size."
                    )
                print(file=output.text_stream)
                print_flops(checkpoint_flops(checkpoints[path]), output)
        if len(checkpoints) > 1:
            show_differences(checkpoints, output)


def print_planned_flops(loaded: LoadedConfig) -> None:
    """Print the cost of a run from its options alone."""
    c: FlopsConfig = loaded.extra["inspect"]
    with Output(c.json) as output:
        print_flops(run_flops(loaded.config, c), output)


def describe_path(
    path: str, checkpoint: Path | None, c: InspectConfig, output: Output
) -> list[str]:
    """Paragraphs about a checkpoint, else about a data folder; write their records."""
    for part in path.split(":"):
        if not Path(part).exists():
            raise ToolkitError(f"No such file or directory: {part}.")
    if checkpoint:
        facts = describe_checkpoint(checkpoint, verify=c.verify)
        output.write("checkpoint", {**checkpoint_record(checkpoint), "verified": c.verify})
        return [f"{path}\n{format_columns(facts.items())}"]
    data = describe_data(path, verify=c.verify, examples=c.examples)
    for row in data.records:
        output.write("column", {**row, "verified": c.verify})
    paragraphs = [f"{path}\n{format_columns(data.facts.items())}", data.splits]
    return [*paragraphs, *([format_columns(data.items.items())] if data.items else [])]


def show_differences(checkpoints: Mapping[str, Path], output: Output) -> None:
    """Print what differs between the runs in options, code and machine.

    Left out are names of folders, options of logging, and those that only some of the runs have.
    """
    runs = []
    for saved in map(read_checkpoint, checkpoints.values()):
        start = saved.start or {}
        facts = flatten({key: start.get(key, "") for key in COMPARED})
        runs.append(relevant_options(saved.run) | facts)
    shared = [name for name in runs[0] if all(name in run for run in runs)]
    rows = []
    for name in [it for it in shared if count_distinct(runs, it) > 1]:
        values = [run[name] for run in runs]
        output.write("difference", {"name": name, "values": values})
        rows.append([name, *map(format_value, values)])
    table = Table(columns=["differs in", *short_names([*checkpoints])], rows=rows)
    text = table.text() if rows else "The options of these runs do not differ.\n"
    print(f"\n{text}", end="", file=output.text_stream)


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


def read_checkpoint(folder: Path) -> SavedCheckpoint:
    """The manifest, the configuration and the training state of a checkpoint."""
    return SavedCheckpoint(
        folder, read_manifest(folder), read_saved_config(folder), read_state(folder)
    )


def describe_checkpoint(folder: Path, *, verify: bool = False) -> dict[str, str]:
    """Name -> fact; with `verify` the digests of all files are checked, else of the small ones."""
    listed = read_manifest(folder)
    small = [name for name in (CONFIG, STATE) if name in listed.files]
    verify_checkpoint(folder, only=None if verify else small, optional=RESUME_FILES)
    saved = read_checkpoint(folder)
    files = [name if (folder / name).exists() else f"{name} (missing)" for name in listed.files]
    links = [folder.resolve().parent / name for name in (LAST, BEST)]
    names = [link.name for link in links if link.exists() and link.samefile(folder)]
    also = f", {' and '.join(names)}" if names else ""
    tokenizer, sizes = Tokenizer.load(folder), saved.config.sizes
    target = f" (source), {sizes['targets']:,} (target)" if sizes.get("targets") else ""
    facts = {
        "kind": f"checkpoint {folder.resolve().name}{also}",
        "plugins": describe_plugins(saved),
        "architecture": describe_component(saved.run, "arch"),
        "task": describe_component(saved.run, "task"),
        "optimizer": f"{describe_component(saved.run, 'optimizer')}; "
        f"{describe_component(saved.run, 'lr_scheduler')}",
        "seed": str(saved.run.get("training", {}).get("seed")),
        "parameters": describe_parameters(saved),
        "layer mixing": describe_layer_mixing(saved),
        "saved at": f"update {listed.update}, epoch {listed.epoch}, "
        f"reasons: {', '.join(listed.reasons) or 'unknown'}",
        "mean of": ", ".join(listed.averaged or ()),
        "metadata": json.dumps(listed.metadata) if listed.metadata else "",
        "converted from": listed.converted or "",
        **describe_training(saved),
        "vocabulary": f"{sizes['tokens']:,} symbols{target}, {tokenizer.kind}, "
        f"fingerprint {tokenizer.vocabulary.fingerprint[:16]}",
        "written by": ", ".join(f"{n} {v}" for n, v in listed.versions.items()),
        **describe_start(saved.start),
        "files": ", ".join([*files, MANIFEST]),
        "digests": "all right" if verify else "not compared (--verify does)",
    }
    return {name: text for name, text in facts.items() if text}


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


def describe_plugins(saved: SavedCheckpoint) -> str:
    """The plugins that a checkpoint needs, and whether they are loaded; empty without any."""
    required = saved.config.plugins
    names = ", ".join(plugin["name"] for plugin in required)
    try:
        plugins.check_loaded(required, f"checkpoint {saved.folder}")
    except ToolkitError:
        return (
            f"{names}, not loaded: pass the plugin's folder with --user-dir to use the checkpoint"
        )
    return names


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


def describe_layer_mixing(saved: SavedCheckpoint) -> str:
    """The learned share of each layer; empty for a model that reads its last layer only."""
    if not saved.run["task"].get("layer_mixing"):
        return ""
    tensors = open_tensors([saved.folder / weights_file(saved.folder)])
    shares = tensors[MIXING_WEIGHTS][...].softmax(0).tolist()
    names = ["embeddings", *(f"layer {number}" for number in range(1, len(shares)))]
    layers = ", ".join(f"{name} {share:.1%}" for name, share in zip(names, shares, strict=True))
    return f"{layers}; scale {float(tensors[MIXING_SCALE][...]):.3g}"


def best_validation(state: SavedState | None) -> BestValidation | None:
    """The best validation in a training state; None without one."""
    validation = state.validation if state else None
    return validation.best if validation else None


def describe_training(saved: SavedCheckpoint) -> dict[str, str]:
    """Best metric so far, precision, ranks and data; empty texts where no run wrote them."""
    state, best = saved.state, best_validation(saved.state)
    metric = f"{best['metric']} {best['value']:.4f} at update {best['update']}" if best else ""
    device, examples = "", ""
    if state:
        device = f"{state.precision} on {state.ranks} rank{'s' * (state.ranks != 1)}"
        examples = f", fingerprint of examples {state.data.examples[:16]}"
    folders = " ".join(saved.run.get("data", {}).get("dirs", []))
    return {"best": metric, "trained in": device, "data": folders + examples}


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
    origin, ranks, memory = start.get("resumed_from"), start["ranks"], start.get("memory_gib")
    machine = [
        f"{start['host']} ({start['os']})",
        f"{start['cores']} cores of {start['cpu']}" + (f", {memory} GiB" if memory else ""),
        *start["gpus"],
        f"{ranks} rank{'s' * (ranks != 1)} on {start['device']}",
    ]
    code = [{"name": "toolkit", **start["toolkit"]}, *start["plugins"]]
    return {
        "command": start.get("command") or "none: started from Python",
        "started": f"{start['time']} in {start['working_directory']}"
        + (f", resumed from {origin}" if origin else ""),
        "code": "; ".join(map(describe_code, code)),
        "packages": ", ".join(f"{name} {version}" for name, version in start["packages"].items()),
        "machine": "; ".join(map(str, machine)),
    }


def describe_code(code: JsonObject) -> str:
    """ "toolkit 0.1.0, commit 1a2b3c with uncommitted changes"."""
    name = " ".join(str(code[key]) for key in ("name", "version") if key in code)
    package = f", package {code['package']}" if "package" in code else ""
    if "commit" not in code:
        return f"{name}{package}, {code.get('no_commit')}"
    changes = " with uncommitted changes" if code.get("uncommitted_changes") else ""
    return f"{name}{package}, commit {code['commit']}{changes}"
