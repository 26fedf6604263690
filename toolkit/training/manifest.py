"""The last file of a checkpoint: what the others are, with the SHA-256 of each and of itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolkit.common.errors import ToolkitError

NAME = "manifest.json"
FORMAT = 1


def sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def text_of(facts: Mapping[str, Any]) -> str:
    """The facts as JSON with a digest of themselves, so that no character can change unseen."""
    plain = json.dumps(facts, indent=1, sort_keys=True, allow_nan=False)
    sealed = {**facts, "digest": hashlib.sha256(plain.encode()).hexdigest()}
    return json.dumps(sealed, indent=1, sort_keys=True, allow_nan=False) + "\n"


def seal(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write the manifest of a folder whose other files are complete."""
    files = {path.name: sha256(path) for path in sorted(folder.iterdir())}
    (folder / NAME).write_text(text_of({**facts, "format": FORMAT, "files": files}), "utf-8")


def read(folder: Path) -> dict[str, Any]:
    """The manifest, checked against its own digest; a ToolkitError says what is wrong with it."""
    damaged = ToolkitError(
        f"the manifest of checkpoint {folder} must be as it was written, but is damaged. "
        f"Use another checkpoint."
    )
    try:
        text = (folder / NAME).read_bytes().decode()
        facts = json.loads(text)
    except FileNotFoundError:
        raise ToolkitError(
            f"a checkpoint must be a folder with a {NAME}, but {folder} has none. "
            f"Give a folder that toolkit-train wrote."
        ) from None
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(facts, dict) or facts.pop("digest", None) is None or text != text_of(facts):
        raise damaged
    if facts["format"] > FORMAT:
        raise ToolkitError(
            f"checkpoint {folder} was written by format {facts['format']}, this toolkit reads up "
            f"to {FORMAT}. Upgrade the toolkit."
        )
    return facts


def verify(folder: Path, only: Sequence[str] | None = None) -> dict[str, Any]:
    """The manifest, after comparing every file, or only some, with its digest."""
    facts = read(folder)
    files = {name: facts["files"].get(name) for name in only} if only else facts["files"]
    for name, digest in files.items():
        path = folder / name
        if not path.is_file():
            raise ToolkitError(
                f"checkpoint {folder} must hold {name}, but it is missing. Use another checkpoint."
            )
        if sha256(path) != digest:
            raise ToolkitError(
                f"{path} must have the digest in its {NAME}, but is damaged. "
                f"Use another checkpoint."
            )
    return facts
