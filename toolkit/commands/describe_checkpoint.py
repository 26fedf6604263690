"""Description of a checkpoint; its plugins need not be loaded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolkit.checkpoints import manifest
from toolkit.checkpoints.load import CONFIG, MODEL, STATE, read_json
from toolkit.checkpoints.save_folder import BEST, LAST
from toolkit.checkpoints.tensor_files import read_shapes
from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.tokenizer import Tokenizer


def find_checkpoint(path: Path) -> Path | None:
    """The checkpoint at a path, or the last one of a save folder; None otherwise."""
    found = (folder for folder in (path, path / LAST) if (folder / manifest.NAME).exists())
    return next(found, None)


def describe_checkpoint(folder: Path, *, verify: bool = False) -> dict[str, str]:
    """Name -> fact; with `verify` the digests of all files are checked, else of the small ones."""
    listed = manifest.read(folder)
    small = [name for name in (CONFIG, STATE) if name in listed["files"]]
    manifest.verify(folder, only=None if verify else small)
    saved = read_json(folder / CONFIG, "run", "sizes", "plugins")
    state = read_json(folder / STATE) if STATE in small else {}
    return {
        "kind": f"checkpoint{_links(folder)}",
        **_plugins(saved["plugins"], folder),
        **_run(saved["run"]),
        "parameters": _parameters(folder / MODEL),
        "saved at": _saved_at(listed),
        **({"mean of": ", ".join(map(str, listed["averaged"]))} if "averaged" in listed else {}),
        **({"converted from": str(listed["converted"])} if "converted" in listed else {}),
        **_progress(state),
        **_data(saved["run"], state),
        "vocabulary": _vocabulary(folder, saved["sizes"]),
        "written by": ", ".join(f"{n} {v}" for n, v in listed.get("versions", {}).items()),
        "files": ", ".join([*listed["files"], manifest.NAME]),
        "digests": "all right" if verify else "not compared (--verify does)",
    }


def checkpoint_record(folder: Path) -> dict[str, Any]:
    """The description as a JSON event; None for unknown values."""
    listed = manifest.read(folder)
    saved = read_json(folder / CONFIG, "run", "sizes", "plugins")
    state = read_json(folder / STATE) if STATE in listed["files"] else {}
    shapes = read_shapes(folder / MODEL).values() if (folder / MODEL).exists() else None
    return {
        "checkpoint": str(folder),
        "architecture": saved["run"]["arch"]["name"],
        "task": saved["run"]["task"]["name"],
        "seed": saved["run"].get("training", {}).get("seed"),
        **{key: listed.get(key) for key in ("update", "epoch", "reasons")},
        "best": state.get("observers", {}).get("validation", {}).get("best"),
        "parameters": None if shapes is None else sum(math.prod(s) for s, _ in shapes),
        "tensors": None if shapes is None else len(shapes),
        "precision": state.get("precision"),
        "symbols": saved["sizes"]["tokens"],
    }


def _links(folder: Path) -> str:
    """The names of the checkpoint: its own and those of links."""
    links = [folder.resolve().parent / name for name in (LAST, BEST)]
    names = [link.name for link in links if link.exists() and link.samefile(folder)]
    return f" {folder.resolve().name}" + (f", {' and '.join(names)}" if names else "")


def _plugins(needed: list[Mapping[str, str]], folder: Path) -> dict[str, str]:
    names = ", ".join(plugin["name"] for plugin in needed)
    try:
        plugins.check_loaded(needed, f"checkpoint {folder}")
    except ToolkitError:
        return {
            "plugins": f"{names}, not loaded: pass the plugin's folder with --user-dir to use the "
            f"checkpoint"
        }
    return {"plugins": names} if needed else {}


def _run(run: Mapping[str, Any]) -> dict[str, str]:
    return {
        "architecture": _component(run, "arch"),
        "task": _component(run, "task"),
        "optimizer": f"{_component(run, 'optimizer')}; {_component(run, 'lr_scheduler')}",
        "seed": str(run.get("training", {}).get("seed")),
    }


def _component(run: Mapping[str, Any], section: str) -> str:
    """Name and options of a component."""
    options = {name: value for name, value in run[section].items() if name != "name"}
    shown = ", ".join(f"{name} {value}" for name, value in options.items() if value is not None)
    return f"{run[section]['name']} ({shown})" if shown else str(run[section]["name"])


def _parameters(path: Path) -> str:
    if not path.exists():
        return "not in one file"
    shapes = read_shapes(path).values()
    count, kinds = sum(math.prod(shape) for shape, _ in shapes), Counter(k for _, k in shapes)
    return f"{count:,} in {len(shapes)} tensors of {', '.join(kinds)}"


def _saved_at(listed: Mapping[str, Any]) -> str:
    reasons = ", ".join(listed.get("reasons", [])) or "unknown"
    return f"update {listed.get('update')}, epoch {listed.get('epoch')}, reasons: {reasons}"


def _progress(state: Mapping[str, Any]) -> dict[str, str]:
    """Best metric so far, precision and ranks, if the state has them."""
    found, best = {}, state.get("observers", {}).get("validation", {}).get("best")
    if best:
        found["best"] = f"{best['metric']} {best['value']:.4f} at update {best['update']}"
    if "precision" in state:
        ranks = int(state.get("ranks", 1))
        found["trained in"] = f"{state['precision']} on {ranks} rank{'s' * (ranks != 1)}"
    return found


def _data(run: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, str]:
    folders = " ".join(run.get("data", {}).get("dirs", []))
    examples = state.get("data", {}).get("examples")
    if not folders and not examples:
        return {}  # no run
    return {"data": folders + (f", fingerprint of examples {examples[:16]}" if examples else "")}


def _vocabulary(folder: Path, sizes: Mapping[str, Any]) -> str:
    tokenizer = Tokenizer.load(folder)
    words = tokenizer.vocabulary
    target = f" (source), {sizes['targets']:,} (target)" if sizes.get("targets") else ""
    found = f"{sizes['tokens']:,} symbols{target}"
    return f"{found}, {tokenizer.kind}, fingerprint {words.fingerprint[:16]}"
