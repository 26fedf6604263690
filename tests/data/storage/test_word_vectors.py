import gzip
import os
from threading import Thread

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.storage.word_vectors import open_table, parse_vectors, read_word_vectors

TEXT = "3 2\nthe 1 2\nNew York -0.5 1e-2\n. 3 4\n"


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "wiki.vec"
    found.write_text(TEXT)
    return found


def test_each_symbol_gets_its_vector_or_one_from_chance(path):
    table, found = read_word_vectors(path).rows_for(["the", "cat", "New York"])
    assert found == 2 and table.dtype == np.float32
    np.testing.assert_allclose(table[[0, 2]], [[1, 2], [-0.5, 0.01]])
    assert (np.abs(table[1]) <= 0.05).all() and table[1].any()
    np.testing.assert_array_equal(
        table, read_word_vectors(path).rows_for(["the", "cat", "New York"])[0]
    )


def test_only_the_first_ones_are_read_where_that_is_asked(path):
    assert set(read_word_vectors(path, 2).rows) == {"the", "New York"}


def test_a_second_reading_maps_the_cache_until_the_file_changes(path):
    read_word_vectors(path)
    [cache] = path.parent.glob("*.npy")
    again = read_word_vectors(path)
    assert isinstance(again.table, np.memmap) and again.rows["."] == 2
    path.write_text(TEXT.replace("the", "them"))
    assert "them" in read_word_vectors(path).rows and cache.exists()


def test_packed_vectors_are_read(tmp_path):
    (tmp_path / "a.vec.gz").write_bytes(gzip.compress(TEXT.encode()))
    assert read_word_vectors(tmp_path / "a.vec.gz").table.shape == (3, 2)


def test_vectors_come_through_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    Thread(target=(tmp_path / "pipe").write_text, args=[TEXT], daemon=True).start()
    assert read_word_vectors(tmp_path / "pipe").table.shape == (3, 2)


def test_where_no_cache_can_be_written_the_vectors_are_there_all_the_same(
    path, monkeypatch, capsys
):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    assert len(read_word_vectors(path).rows) == 3
    assert "no cache of the vectors" in capsys.readouterr().err
    assert list(path.parent.iterdir()) == [path]  # a full disk keeps no half of one


@pytest.mark.parametrize(
    "data", [gzip.compress(TEXT.encode(), mtime=0)[:-12], TEXT.encode()], ids=["cut", "plain"]
)
def test_packed_vectors_that_are_cut_off_or_not_packed_are_told(tmp_path, data):
    (tmp_path / "a.vec.gz").write_bytes(data)
    told = r"word_vectors must name a readable file, but .*a.vec.gz is not: .* copy it again"
    with pytest.raises(ToolkitError, match=told):
        read_word_vectors(tmp_path / "a.vec.gz")


def test_a_folder_in_place_of_vectors_is_told(tmp_path):
    with pytest.raises(ToolkitError, match="word_vectors must name a readable file, but"):
        read_word_vectors(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("3 2\n", "", r"wiki.vec:1: the first line must be how many vectors"),
        ("3 2\n", "900000000000 300\n", r"wiki.vec:1: .* 900000000000 of 300 numbers each have no"),
        ("3 2\n", "5 2\n", r"wiki.vec:5: the file must hold the 5 vectors .* ends here"),
        ("the 1 2", "the 1", r"wiki.vec:2: a line must be a word and 2 numbers, but is not: has 1"),
        (". 3 4", ". 3 x", r"wiki.vec:4: a line must be a word and 2 numbers"),
        (". 3 4", ". 3 nan", r"wiki.vec:4: .* has one that is not finite"),
    ],
)
def test_a_fault_is_told_by_file_and_line(path, old, new, complaint):
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(ToolkitError, match=complaint):
        parse_vectors(path, 0)


def test_a_table_of_objects_is_refused_without_being_unpickled(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}, []], dtype=object))
    with pytest.raises(ToolkitError, match=r"a.npy must hold a table of numbers, but does not"):
        open_table(tmp_path / "a.npy")
