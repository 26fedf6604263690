import os
from threading import Thread

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.formats.tagging.tokenizer import read_word_vectors
from toolkit.data.storage.data_folder import make_synthetic_text

TEXT = "3 2\nthe 1 2\nNew York -0.5 1e-2\n. 3 4\n"
SYMBOLS = ["the", "cat", "New York", "."]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "wiki.vec"
    path.write_text(TEXT)
    return path


def test_each_symbol_gets_its_vector_or_a_random_one(path):
    table, known = read_word_vectors(path, SYMBOLS)
    assert known == 3 and table.dtype == np.float32
    np.testing.assert_allclose(table[[0, 2, 3]], [[1, 2], [-0.5, 0.01], [3, 4]])
    assert (np.abs(table[1]) <= 0.05).all() and table[1].any()
    np.testing.assert_array_equal(table, read_word_vectors(path, SYMBOLS)[0])
    assert list(path.parent.iterdir()) == [path]


def test_limit_reads_the_first_vectors_only(path):
    assert read_word_vectors(path, SYMBOLS, limit=2)[1] == 2
    path.write_text(TEXT.replace(". 3 4", ". x y"))
    assert read_word_vectors(path, SYMBOLS, limit=2)[1] == 2


def test_the_first_of_several_vectors_counts(path):
    path.write_text(TEXT.replace("New York", "the"))
    table, known = read_word_vectors(path, SYMBOLS)
    assert known == 2 and table[0].tolist() == [1, 2]


def test_vectors_are_read_from_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    Thread(target=(tmp_path / "pipe").write_text, args=[TEXT], daemon=True).start()
    assert read_word_vectors(tmp_path / "pipe", SYMBOLS)[1] == 3


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("3 2\n", "", r"wiki.vec:1: expected the number of vectors and their width, found b'the"),
        ("3 2\n", "900000000000 2\n", r"wiki.vec:5: expected 900000000000 vectors, .* ends here"),
        ("3 2\n", "3 900000000000\n", r"wiki.vec:2: expected a word and 900000000000 numbers"),
        ("3 2\n", "5 2\n", r"wiki.vec:5: expected 5 vectors, .* but the file ends here"),
        ("the 1 2", "the 1", r"wiki.vec:2: expected a word and 2 numbers, found 1"),
        ("the 1 2", "the  2", r"wiki.vec:2: expected 2 finite numbers after the word"),
        (". 3 4", ". 3 x", r"wiki.vec:4: expected 2 numbers after the word: .*'x'"),
        (". 3 4", ". 3 nan", r"wiki.vec:4: expected 2 finite numbers"),
    ],
)
def test_faults_are_named_by_file_and_line(path, old, new, message):
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(ToolkitError, match=message):
        read_word_vectors(path, SYMBOLS)


def test_a_table_of_objects_is_rejected_without_being_unpickled(tmp_path):
    np.save(tmp_path / "vectors.npy", np.array([{}, []], dtype=object))
    folder = make_synthetic_text(20, 1)
    folder.path = tmp_path
    with pytest.raises(ToolkitError, match=r"must hold a table of floats, but .* Run toolkit"):
        _ = folder.word_vectors
