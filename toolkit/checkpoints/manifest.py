"""The manifest of a checkpoint: its files with the SHA-256 of each, and of the manifest itself."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import (
    Count,
    JsonObject,
    convert,
    decode,
    name_file,
    read_text,
    sha256,
    sha256_file,
)

NAME = "manifest.json"
FORMAT = 1
MAX_FILES = 10_000
REMEDY = "Use another checkpoint."


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What manifest.json says of a checkpoint."""

    format: Count
    files: Annotated[dict[str, str], Meta(max_length=MAX_FILES)]
    """File -> its SHA-256."""
    update: Count = 0
    epoch: Count = 0
    reasons: list[str] = field(default_factory=list)
    """Why it was saved."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the toolkit and torch that wrote it."""
    averaged: list[str] = field(default_factory=list)
    """The checkpoints that it is the mean of."""
    converted: str = ""
    """The model that it was converted from."""
    metadata: JsonObject = field(default_factory=dict)
    """What the user added."""


def to_text(facts: Mapping[str, object]) -> str:
    """The facts as JSON with their digest, so that every change is detected."""
    text = json.dumps(facts, indent=1, sort_keys=True)
    signed = {**facts, "digest": sha256(text)}
    return json.dumps(signed, indent=1, sort_keys=True) + "\n"


def write(folder: Path, facts: Mapping[str, object]) -> None:
    """Write the manifest of a folder whose other files are complete."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): sha256_file(path) for path in paths}
    (folder / NAME).write_text(to_text({**facts, "format": FORMAT, "files": files}), "utf-8")


def read(folder: Path) -> Manifest:
    """The manifest, verified by its own digest."""
    path = folder / NAME
    if not os.path.lexists(path):
        raise ToolkitError(
            f"a checkpoint must be a folder with a {NAME}, but {folder} has none. "
            f"{suggest_folder(folder)}"
        )
    with name_file(path, REMEDY):
        text = read_text(path)
        facts = decode(text, JsonObject)
    if not facts.pop("digest", None) or text != to_text(facts):
        raise ToolkitError(
            f"the manifest of checkpoint {folder} must be as it was written, but is damaged. "
            f"{REMEDY}"
        )
    with name_file(path, REMEDY):
        version = convert(facts.get("format"), int)
        if version > FORMAT:
            raise ToolkitError(
                f"checkpoint {folder} has format {version}, but this toolkit reads formats up to "
                f"{FORMAT}. Upgrade the toolkit."
            )
        return convert(facts, Manifest)


def suggest_folder(folder: Path) -> str:
    """What to do about a folder without manifest."""
    if (folder / "config.json").exists():
        return "If it is a model of Transformers, run toolkit-convert import first."
    return "Name a folder that toolkit-train wrote."


def verify(
    folder: Path, only: Sequence[str] | None = None, optional: Sequence[str] = ()
) -> Manifest:
    """The manifest, after comparing all files, or only some, with their digests.

    Files that match a pattern of `optional` may be missing.
    """
    facts = read(folder)
    files = {name: facts.files.get(name) for name in only} if only else facts.files
    for name, digest in files.items():
        path = resolve_inside(folder, name)
        if not path.exists() and any(fnmatchcase(name, pattern) for pattern in optional):
            continue
        if not path.is_file():
            raise ToolkitError(f"checkpoint {folder} must hold {name}, but it is missing. {REMEDY}")
        with name_file(path, REMEDY):
            actual = sha256_file(path)
        if actual != digest:
            raise ToolkitError(
                f"{path} must have the digest in its {NAME}, but is damaged. {REMEDY}"
            )
    return facts


def resolve_inside(folder: Path, name: str) -> Path:
    """The path of a checkpoint's file; names and links that lead outside are rejected."""
    path = folder / name
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # a loop of links, a NUL in the name
        inside = False
    if not inside or Path(name).is_absolute():
        raise ToolkitError(
            f"{folder / NAME} must name files of its own folder, but names {name[:80]!r}. "
            f"toolkit-train writes no such checkpoint: do not use it."
        )
    return path
