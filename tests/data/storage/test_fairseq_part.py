import pickle

import numpy as np
import pytest

from tests.helpers.fairseq_files import write_items
from toolkit.common.errors import ToolkitError
from toolkit.data.storage.columns import Column
from toolkit.data.storage.fairseq import FairseqColumnPart

EOS = 2


@pytest.fixture
def part(tmp_path):
    def open_part(*items, dtype="u2"):
        write_items(tmp_path / "train", items, dtype)
        return FairseqColumnPart(tmp_path / "train", "train", symbols=20, sep=EOS)

    return open_part


def sentences(part):
    """Each item's values, read one by one."""
    edges = zip(part.offsets[:-1], part.offsets[1:], strict=True)
    rows = [(np.arange(b, e)[None], np.array([b]), np.array([e])) for b, e in edges]
    return [Column("tokens", [part]).take(*row)[0].tolist() for row in rows]


def test_fairseq_part_drops_eos_and_ends_documents_at_blank_lines(part):
    found = part([7, 8, EOS], [9, EOS], [EOS], [EOS], [10, 11, 12, EOS], [EOS])
    assert sentences(found) == [[7, 8], [9], [10, 11, 12]]
    assert found.document_starts.tolist() == [0, 2]
    assert (found.items, found.elements, found.documents) == (3, 6, 2)


def test_fairseq_part_without_eos_is_read_as_it_is(part):
    found = part([7, 8], [9], [], [10])
    assert sentences(found) == [[7, 8], [9], [10]]
    assert found.document_starts.tolist() == [0, 2]


@pytest.mark.parametrize("dtype", ["u1", "i4", "u8"])
def test_rows_of_every_type_are_read(part, dtype):
    found = part([7, 8, EOS], [9, 10, 11, EOS], dtype=dtype)
    rows = found.take(np.array([[0, 1], [3, 4]]), np.array([0, 3]), np.array([2, 5]))
    assert rows.tolist() == [[7, 8], [10, 11]]


def test_a_row_may_cross_sentences(part):
    found = part([7, 8, EOS], [EOS], [9, 10, EOS])
    assert found.take(np.arange(4)[None], np.array([0]), np.array([4])).tolist() == [[7, 8, 9, 10]]


def test_nothing_but_blank_lines_has_no_sentences(part):
    found = part([EOS], [EOS])
    assert (found.items, found.elements, found.documents) == (0, 0, 0)


@pytest.mark.parametrize(("wrong", "dtype"), [(20, "u2"), (-1, "i4"), (2**64 - 1, "u8")])
def test_an_id_outside_the_vocabulary_is_named_with_its_item(part, wrong, dtype):
    found = part([7, EOS], [EOS], [8, wrong, EOS], dtype=dtype)
    with pytest.raises(ToolkitError, match=r"item 2 of .*train.bin .* must hold ids below 20"):
        sentences(found)


def test_items_with_and_without_eos_cannot_be_mixed(part):
    with pytest.raises(ToolkitError, match=r"item 1 of .* must end in </s> like the others"):
        part([7, EOS], [8, 9], [10, EOS]).offsets  # noqa: B018


def test_check_all_finds_a_missing_eos(part):
    items = [[7, EOS]] * 5000
    items[3333] = [7, 8]
    with pytest.raises(ToolkitError, match=r"item 3333 of .* must end in </s>, but does not"):
        part(*items).check_all()


def test_part_is_pickled_as_its_path(part):
    sent = pickle.dumps(part([7, EOS]))
    assert len(sent) < 500
    assert pickle.loads(sent).offsets.tolist() == [0, 1]


def test_opening_reads_no_item(part):
    found = part([7, EOS], [8, EOS])
    found.files[1].write_bytes(found.files[1].read_bytes()[:26] + b"\xff" * 24)
    assert "_items" not in vars(found)
