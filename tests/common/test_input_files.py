import os
import socket
import threading
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


@pytest.mark.slow
def test_named_pipe_is_read_if_a_process_writes_to_it(tmp_path):
    os.mkfifo(path := tmp_path / "pipe")
    with pytest.raises(ToolkitError, match="pipe that no process writes to"):
        open_regular(path, allow_pipe=True)
    reader, writer = os.open(path, os.O_RDONLY | os.O_NONBLOCK), os.open(path, os.O_WRONLY)
    os.write(writer, b"text")
    os.close(writer)
    with open_regular(path, allow_pipe=True) as file:
        assert file.read() == b"text"
    os.close(reader)


def test_named_pipe_waits_for_a_writer_that_starts_at_the_same_time(tmp_path):
    os.mkfifo(path := tmp_path / "pipe")
    writer = threading.Timer(0.3, lambda: path.write_bytes(b"text"))
    writer.start()
    with open_regular(path, allow_pipe=True) as file:
        assert file.read() == b"text"
    writer.join()
