"""All files of a toolkit tokenizer in one JSON file, which models and tokenizers carry along."""

from __future__ import annotations

import base64
import json
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import FilePath, JsonError, decode
from toolkit.data.tokenizers.tokenizer import Tokenizer

TOOLKIT_TOKENIZER_FILE = "toolkit_tokenizer.json"


def pack_tokenizer(tokenizer: Tokenizer) -> bytes:
    """The files of a tokenizer, each as base64 by its name."""
    with TemporaryDirectory() as folder:
        tokenizer.save(folder)
        files = {
            path.relative_to(folder).as_posix(): base64.b64encode(path.read_bytes()).decode()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        }
    return (json.dumps(files, indent=1) + "\n").encode()


def unpack_tokenizer(content: bytes) -> Tokenizer:
    """The tokenizer that `pack_tokenizer` wrote."""
    with TemporaryDirectory() as folder:
        for name, data in parse(content).items():
            path = Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        return Tokenizer.load(folder)


def parse(content: bytes) -> dict[str, bytes]:
    """Name -> content of the files; names with other folders than one below are errors."""
    try:
        files = decode(content, dict[FilePath, bytes])
    except JsonError:
        files = {}
    paths = [PurePosixPath(name) for name in files]
    if not files or any(len(path.parts) > 2 or {"..", "/"} & set(path.parts) for path in paths):
        raise ToolkitError(
            f"{TOOLKIT_TOKENIZER_FILE} must have the files of a tokenizer, but does not. Export "
            f"the model again."
        )
    return files
