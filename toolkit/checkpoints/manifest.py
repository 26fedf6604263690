"""The manifest of a checkpoint: its files with the SHA-256 of each, and of the manifest itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.common.digest import sha256, sha256_file
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import read_text

NAME = "manifest.json"
FORMAT = 1
MAX_FILES = 10_000


def to_text(facts: Mapping[str, object]) -> str:
    """The facts as JSON with their digest, so that every change is detected."""
    text = json.dumps(facts, indent=1, sort_keys=True, allow_nan=False)
    signed = {**facts, "digest": sha256(text)}
    return json.dumps(signed, indent=1, sort_keys=True, allow_nan=False) + "\n"


def write(folder: Path, facts: Mapping[str, object]) -> None:
    """Write the manifest of a folder whose other files are complete."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): sha256_file(path) for path in paths}
    (folder / NAME).write_text(to_text({**facts, "format": FORMAT, "files": files}), "utf-8")


def read(folder: Path) -> dict[str, Any]:
    """The manifest, verified by its own digest."""
    damaged = ToolkitError(
        f"the manifest of checkpoint {folder} must be as it was written, but is damaged. "
        f"Use another checkpoint."
    )
    try:
        text = read_text(folder / NAME)
        facts = json.loads(text)
        intact = isinstance(facts, dict) and facts.pop("digest", None) and text == to_text(facts)
    except (FileNotFoundError, NotADirectoryError):
        has_config = (folder / "config.json").exists()
        remedy = (
            "If it is a model of Transformers, run toolkit-convert with --to toolkit first."
            if has_config
            else "Name a folder that toolkit-train wrote."
        )
        raise ToolkitError(
            f"a checkpoint must be a folder with a {NAME}, but {folder} has none. {remedy}"
        ) from None
    except ToolkitError:
        raise
    except OSError as error:
        raise unreadable_error(folder / NAME, error) from None
    except (ValueError, RecursionError):
        raise damaged from None
    version = facts.get("format") if intact else None
    if not isinstance(version, int) or not is_file_table(facts.get("files")):
        raise damaged
    if version > FORMAT:
        raise ToolkitError(
            f"checkpoint {folder} has format {version}, but this toolkit reads formats up to "
            f"{FORMAT}. Upgrade the toolkit."
        )
    return dict(facts)


def is_file_table(files: object) -> bool:
    """Whether it maps file names to digests, at most MAX_FILES of them."""
    if not isinstance(files, dict) or len(files) > MAX_FILES:
        return False
    return all(isinstance(digest, str) for digest in files.values())


def verify(folder: Path, only: Sequence[str] | None = None) -> dict[str, Any]:
    """The manifest, after comparing all files, or only some, with their digests."""
    facts = read(folder)
    files = {name: facts["files"].get(name) for name in only} if only else facts["files"]
    for name, digest in files.items():
        path = resolve_inside(folder, name)
        if not path.is_file():
            raise ToolkitError(
                f"checkpoint {folder} must hold {name}, but it is missing. Use another checkpoint."
            )
        try:
            actual = sha256_file(path)
        except OSError as error:
            raise unreadable_error(path, error) from None
        if actual != digest:
            raise ToolkitError(
                f"{path} must have the digest in its {NAME}, but is damaged. "
                f"Use another checkpoint."
            )
    return facts


def unreadable_error(path: Path, error: OSError) -> ToolkitError:
    """The error for a file of a checkpoint that cannot be read."""
    return ToolkitError(f"{path} must be readable, but is not: {error}. Use another checkpoint.")


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
