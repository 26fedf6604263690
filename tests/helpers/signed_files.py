"""Files of data folders and checkpoints with other contents, and the digests of these."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from toolkit.checkpoints.save_folder import manifest_text, read_manifest
from toolkit.common.json_files import JsonObject, sha256_file, write_signed_json
from toolkit.config.command import MANIFEST


def sign_json(path: Path, content: JsonObject) -> None:
    """Replace meta.json or plan.json."""
    write_signed_json(path, {name: value for name, value in content.items() if name != "digest"})


def sign_manifest(folder: Path, **changes: object) -> None:
    """Change the manifest of a checkpoint."""
    facts = {**asdict(read_manifest(folder)), **changes}
    (folder / MANIFEST).write_text(manifest_text(facts), "utf-8")


def sign_files(folder: Path, *names: str) -> None:
    """Put the digests of files that were replaced into the manifest of a checkpoint."""
    digests = {name: sha256_file(folder / name) for name in names}
    sign_manifest(folder, files={**read_manifest(folder).files, **digests})


def sign_data_files(folder: Path, *names: str) -> None:
    """Put the digests of files that were replaced into meta.json of a data folder."""
    content = json.loads((folder / "meta.json").read_text("utf-8"))
    content["files"] |= {name: sha256_file(folder / name) for name in names}
    sign_json(folder / "meta.json", content)
