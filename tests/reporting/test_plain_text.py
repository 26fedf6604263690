import io
import os

import pytest

from toolkit.reporting.plain_text import Console


def test_console_leaves_a_closed_pipe_to_its_caller():
    reader, writer = os.pipe()
    os.close(reader)
    file = io.TextIOWrapper(io.FileIO(writer, "w"), write_through=True)
    with pytest.raises(BrokenPipeError):
        Console(file=file).print("text")
