"""Paths that are too long, links that form a loop, links to nothing, patterns: one line each."""

from importlib import import_module

import pytest

COMMANDS = [
    "inspect PATH",
    "plot curve PATH",
    "convert export PATH new",
    "train PATH --arch bert_tiny --task mlm",
    "train data --config PATH",
    "validate PATH --task minimal_pairs --path run",
    "preprocess --trainpref PATH --destdir new",
    "preprocess --trainpref text --destdir text/PATH",
    "generate score text text --json PATH/a",
]
PATHS = ["x" * 300, "loop", "dangling", "**/x", "text/x", "a\udcff"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ascii(path[:10]))
@pytest.mark.parametrize("command", COMMANDS)
def test_unusual_path_is_one_line(tmp_path, monkeypatch, capfd, command, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("some text\n")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder").mkdir()
    name, *words = command.replace("PATH", path).split(" ")
    assert import_module(f"toolkit.cli.{name}").main(words) == 2
    printed = capfd.readouterr().err.splitlines()
    assert len(printed) == 1 and printed[0].startswith(f"toolkit-{name}")
    assert not (tmp_path / "new").exists()
