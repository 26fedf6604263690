"""Files of predictions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from toolkit.common.errors import ToolkitError


@contextmanager
def report_write_errors(path: Path) -> Iterator[None]:
    """Turn an error of the file system into one that names the option."""
    try:
        yield
    except OSError as error:
        raise ToolkitError(
            f"Cannot write predictions to {path}: {error.strerror}. Choose another --predictions."
        ) from error
