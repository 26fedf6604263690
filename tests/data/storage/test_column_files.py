import tracemalloc
import zlib

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.storage.column_files import (
    BLOCK_BYTES,
    HEADER_BYTES,
    CheckedColumnPart,
    Column,
    ColumnWriter,
    checksum_blocks,
    checksum_values,
    format_header,
)

ARRAYS = ["", ".starts", ".documents", ".crc32"]


def take(part, begin, end):
    indices = np.arange(begin, end)[None]
    return part.take(indices, np.array([begin]), np.array([end]))[0].tolist()


def write(stem, lengths, seed=0):
    """A part with random values, in which every third item starts a document; and the values."""
    writer = ColumnWriter(stem, "<u2")
    lengths = np.array(lengths, np.int64)
    values = np.random.default_rng(seed).integers(0, 1 << 16, lengths.sum())
    writer.add(values, lengths, np.arange(len(lengths)) % 3 == 0)
    return CheckedColumnPart(stem, writer.finish()), values


def path_of(part, array=""):
    return part.stem.with_name(f"{part.stem.name}{array}.npy")


def use_every_item(part):
    part = CheckedColumnPart(part.stem, part.entry)
    starts, ends = part.offsets[:-1], part.offsets[1:]
    Column("tokens", [part]).take(starts[:, None], starts, ends)
    return part.document_starts


def flip(file, byte):
    content = bytearray(file.read_bytes())
    content[byte] ^= 4
    file.write_bytes(content)


def test_numpy_reads_what_was_added(tmp_path):
    writer = ColumnWriter(tmp_path / "train.tokens", "<u2")
    writer.add(np.array([5, 6, 7]), np.array([2, 1]), np.array([True, False]))
    writer.add(np.array([8]), np.array([1]), np.array([True]))
    entry = writer.finish()
    values, starts, documents, checksums = (
        np.load(tmp_path / f"train.tokens{name}.npy", mmap_mode="r", allow_pickle=False)
        for name in ARRAYS
    )
    assert (values.dtype, values.tolist()) == (np.uint16, [5, 6, 7, 8])
    assert (starts.dtype, starts.tolist()) == (np.int64, [0, 2, 3, 4])
    assert documents.tolist() == [0, 2]
    assert len(checksums) == 2
    counts = {name: entry[name] for name in ("dtype", "items", "elements", "documents")}
    assert counts == {"dtype": "<u2", "items": 3, "elements": 4, "documents": 2}


def test_floating_point_values_are_read_as_they_were_written(tmp_path):
    parts = []
    for name, values in (("one", [2.75, 0.5]), ("two", [np.nan])):
        writer = ColumnWriter(tmp_path / name, "<f4")
        writer.add(
            np.array(values, np.float32), np.ones(len(values), np.int64), np.ones(len(values), bool)
        )
        parts.append(CheckedColumnPart(tmp_path / name, writer.finish()))
    column = Column("score", parts)
    np.testing.assert_array_equal(column.read_all(), np.array([2.75, 0.5, np.nan], np.float32))
    assert column.take(np.array([[2], [0]]), np.array([2, 0]), np.array([3, 1]))[1].tolist() == [
        2.75
    ]


def test_checksums_are_the_crc32_of_each_mebibyte():
    draw = np.random.default_rng(0)
    arrays = [draw.integers(0, 1 << 16, n).astype("<u2") for n in (0, 5, BLOCK_BYTES, 7)]
    data = b"".join(array.tobytes() for array in arrays)
    expected = [zlib.crc32(data[i : i + BLOCK_BYTES]) for i in range(0, len(data), BLOCK_BYTES)]
    assert checksum_blocks(*arrays).tolist() == expected
    assert len(checksum_blocks(arrays[2])) == 2 and len(checksum_blocks()) == 0
    assert checksum_values(arrays[1]).tolist() == [zlib.crc32(arrays[1].tobytes() + bytes(6))]


@pytest.mark.parametrize("array", ARRAYS)
def test_200_of_200_flipped_bits_are_noticed_before_an_item_is_used(tmp_path, array):
    part, _ = write(tmp_path / "train.tokens", np.random.default_rng(1).integers(1, 9, 3000))
    file = path_of(part, array)
    whole, draw = file.read_bytes(), np.random.default_rng(2)
    for bit in draw.integers(0, 8 * len(whole), 200).tolist():
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        with pytest.raises(ToolkitError, match=r"train.tokens"):
            use_every_item(part)
    file.write_bytes(whole)
    use_every_item(part)


def test_damage_is_named_by_file_and_item_and_noticed_only_where_it_is(tmp_path):
    part, values = write(tmp_path / "valid.tokens", [1000] * 2000)
    flip(path_of(part), HEADER_BYTES + 2 * 700_000)  # in the second MiB
    column = Column("tokens", [CheckedColumnPart(part.stem, part.entry)])
    for begin in (100_000, 1_200_000, 100_000):
        assert take(column, begin, begin + 2) == values[begin : begin + 2].tolist()
    assert take(column, 700_000, 700_000) == []
    with pytest.raises(ToolkitError) as caught:
        take(column, 900_500, 900_600)
    assert str(caught.value) == (
        f"{path_of(part)} does not match its checksums: MiB 1, which holds item 900, is damaged. "
        f"Copy the folder again, or run toolkit-preprocess again."
    )
    with pytest.raises(ToolkitError, match="MiB 1"):  # between good ends
        take(column, 0, len(values))


@pytest.mark.parametrize("array", ARRAYS)
def test_truncated_grown_missing_and_foreign_files_are_refused(tmp_path, array):
    part, _ = write(tmp_path / "train.tokens", [2, 1, 3])
    file = path_of(part, array)
    whole = file.read_bytes()
    for content in (b"", b"PK\3\4", whole[:100], whole[:-1], whole + b"\0", b"MMIDIDX\0\0" * 40):
        file.write_bytes(content)
        with pytest.raises(ToolkitError, match=rf"{file} must .* Copy the folder again"):
            use_every_item(part)
    file.unlink()
    with pytest.raises(FileNotFoundError, match=str(file)):
        use_every_item(part)
    file.mkdir()
    with pytest.raises(ToolkitError, match=rf"{file} must be a regular file, but is a folder"):
        use_every_item(part)


@pytest.mark.parametrize(
    ("array", "numbers"),
    [
        *((".starts", n) for n in ([1, 2, 3, 6], [0, 3, 2, 6], [0, 2, 3, 7], [0, -1, 3, 6])),
        *((".documents", n) for n in ([0, 3], [2, 0], [1, 1], [-1, 2], [0, 2**62], [-(2**63), 1])),
    ],
)
def test_impossible_starts_with_correct_checksums_are_refused(tmp_path, array, numbers):
    """Written by another program; using them would allocate memory or read other items."""
    part, values = write(tmp_path / "train.tokens", [2, 1, 3])
    writer = ColumnWriter(part.stem, "<u2")
    writer.add(values, np.array([2, 1, 3]), np.isin(np.arange(3), [0, 2]))
    entry = writer.finish()
    file = path_of(part, array)
    file.write_bytes(file.read_bytes()[:HEADER_BYTES] + np.array(numbers, "<i8").tobytes())
    index = np.load(path_of(part, ".starts")), np.load(path_of(part, ".documents"))
    tables = checksum_values(np.load(path_of(part))), checksum_blocks(*index)
    np.save(path_of(part, ".crc32"), np.concatenate(tables))
    entry["checksums"] = [int(checksum_blocks(table)[0]) for table in tables]
    with pytest.raises(ToolkitError, match="must hold rising numbers"):
        use_every_item(CheckedColumnPart(part.stem, entry))


def test_a_hundred_million_items_open_without_being_read(tmp_path):
    part, _ = write(tmp_path / "train.tokens", [])
    counts = {"items": 10**8, "elements": 2 * 10**9, "documents": 10**7}
    lengths = {"": ("<u2", 2 * 10**9), ".starts": ("<i8", 10**8 + 1), ".documents": ("<i8", 10**7)}
    sizes = []
    for array, (dtype, length) in lengths.items():
        with path_of(part, array).open("wb") as file:
            file.write(format_header(dtype, length))
            size = length * np.dtype(dtype).itemsize
            file.truncate(HEADER_BYTES + size)  # a hole: nothing of it is on the disk
            sizes.append(size)
    tables = [np.zeros(-(-n // BLOCK_BYTES), "<u4") for n in (sizes[0], sizes[1] + sizes[2])]
    np.save(path_of(part, ".crc32"), np.concatenate(tables))
    checksums = [int(checksum_blocks(table)[0]) for table in tables]
    entry = {**part.entry, **counts, "checksums": checksums}
    tracemalloc.start()
    opened = CheckedColumnPart(part.stem, entry)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert (opened.items, opened.documents) == (10**8, 10**7)
