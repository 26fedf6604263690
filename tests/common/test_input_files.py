import os
import socket
from pathlib import Path

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.common.files import open_regular


def test_open_regular_rejects_what_is_no_file(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for name, kind in {"pipe": "a pipe", "link": "a pipe", "zero": "a device"}.items():
        with pytest.raises(ToolkitError, match=f"{name} must be a regular file, but is {kind}"):
            open_regular(tmp_path / name)
    with pytest.raises(ToolkitError, match="is a socket"):
        open_regular(tmp_path / "socket")
    with pytest.raises(ToolkitError, match="is a folder"):
        open_regular(tmp_path)


def test_open_regular_reads_a_pipe_if_allowed():
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    with open_regular(Path(f"/dev/fd/{reader}"), allow_pipe=True) as file:
        assert file.read() == b"text"
    os.close(reader)
