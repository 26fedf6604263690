"""Standard input and pipes, which can be read only once: stored until the end of the run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular
from toolkit.config.commands.preprocess import PreprocessConfig

STDIN = "-"


@contextmanager
def store_streams(config: PreprocessConfig, folder: Path) -> Iterator[PreprocessConfig]:
    """The config with files in the folder in place of standard input and pipes.

    Errors name the streams, not these files. The files are deleted at the end of the block.
    """
    names = [name for names in config.inputs.values() for name in names.split(",")]
    if not any(map(is_stream, names)):
        yield config
        return
    if names.count(STDIN) > 1:
        raise ToolkitError("standard input (-) can be given only once, because it is read once.")
    with TemporaryDirectory(prefix="streams-", dir=folder) as temporary:
        files = {name: store(name, Path(temporary)) for name in names if is_stream(name)}
        inputs: dict[str, Any] = {
            f"{split}pref": ",".join(str(files.get(name, name)) for name in names.split(","))
            for split, names in config.inputs.items()
        }
        try:
            yield replace(config, **inputs)
        except ToolkitError as error:
            message = str(error)
            for name, file in files.items():
                message = message.replace(str(file), "standard input" if name == STDIN else name)
            raise ToolkitError(message) from error


def is_stream(name: str) -> bool:
    """Whether a name is standard input or a named pipe."""
    return name == STDIN or Path(name).is_fifo()


def store(name: str, folder: Path) -> Path:
    """Copy a stream to a file with its ending, if it has one."""
    file = folder / ("standard-input" if name == STDIN else Path(name).name)
    with file.open("xb") as output:
        if name != STDIN:
            with open_regular(Path(name), allow_pipe=True) as pipe:
                shutil.copyfileobj(pipe, output)
            return file
        if sys.stdin.isatty():
            print("Reading text from standard input; end with Ctrl-D.", file=sys.stderr)
        shutil.copyfileobj(sys.stdin.buffer, output)
    return file
