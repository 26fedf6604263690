"""Errors of data folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.storage.data_folder import DataFolder


def opening_error(*paths: Path) -> str:
    """The message of the error that opening these folders raises."""
    with pytest.raises(ToolkitError) as caught:
        DataFolder.open(*paths)
    return str(caught.value)
