import pytest

from toolkit.common.errors import ToolkitError, describe_os_error
from toolkit.common.files import (
    check_output,
    open_output,
    open_unlinked,
    temporary_path,
    write_output,
)


def test_open_output_keeps_the_old_content_until_the_end(tmp_path):
    path = tmp_path / "a"
    path.write_text("old\n")
    for written in ("", "half"):
        with pytest.raises(ZeroDivisionError), open_output(path) as file:
            file.write(written)
            raise ZeroDivisionError
        assert path.read_text() == "old\n"
    with open_output(path) as file:
        file.write("new\n")
        assert path.read_text() == "old\n"
    assert path.read_text() == "new\n"
    with open_output(path):
        pass
    assert path.read_text() == "" and [*tmp_path.iterdir()] == [path]


def test_lines_before_a_mistake_in_the_input_are_kept(tmp_path):
    path = tmp_path / "a"
    path.write_text("old\n")
    for written, kept in (("", "old\n"), ("line\n", "line\n")):
        with pytest.raises(ToolkitError), open_output(path) as file:
            file.write(written)
            raise ToolkitError("line 2 is malformed")
        assert path.read_text() == kept


def test_links_are_written_through_by_outputs_and_rejected_in_folders(tmp_path):
    (tmp_path / "link").symlink_to("a")
    with open_output(tmp_path / "link") as file:
        file.write("new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "a").read_text() == "new"
    with pytest.raises(OSError, match="link"):
        open_unlinked(tmp_path / "link", "ab")


def test_write_output_replaces_a_file_and_the_target_of_a_link(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "link").symlink_to("a")
    write_output(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "a").read_text() == "new"
    write_output(tmp_path / "b", b"bytes")
    assert (tmp_path / "b").read_bytes() == b"bytes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "link"]


def test_full_disk_is_an_error_that_names_the_file():
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_output("/dev/full", "text")
    with (
        pytest.raises(OSError, match="No space left on device: '/dev/full'"),
        open_output("/dev/full") as file,
    ):
        file.write("text")
        file.flush()


def test_check_output_finds_what_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("old")
    for path in (
        "",
        tmp_path / "none" / "a",
        tmp_path / "file" / "a",
        tmp_path,
        tmp_path / ("x" * 300),
    ):
        with pytest.raises(OSError) as caught:
            check_output(path)
        assert describe_os_error(caught.value).startswith((str(path) or ".")[:150])
    for path in (tmp_path / "new", tmp_path / "file", "/dev/stdout", "-"):
        check_output(path)
    check_output(tmp_path, allow_folder=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_lines_of_a_killed_process_with_the_same_id_are_left_out(tmp_path):
    temporary_path(tmp_path / "out").write_text("half\n")
    with open_output(tmp_path / "out") as file:
        file.write("whole\n")
    assert (tmp_path / "out").read_text() == "whole\n"
