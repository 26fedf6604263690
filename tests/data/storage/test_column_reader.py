import pickle
import tracemalloc

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.storage.column_reader import CheckedColumnPart
from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.storage.columns import Column
from toolkit.data.storage.header import Header


def take(column, begin, end):
    indices = np.arange(begin, end)[None]
    return column.take(indices, np.array([begin]), np.array([end]))[0].tolist()


def written(stem, lengths, seed=0):
    writer = ColumnWriter(stem, "<u2")
    lengths = np.array(lengths, np.int64)
    values = np.random.default_rng(seed).integers(0, 1 << 16, lengths.sum())
    writer.add(values, lengths, np.arange(len(lengths)) % 3 == 0)
    writer.finish()
    return values


def test_part_is_pickled_as_its_path(column):
    part = column(([[1, 2], [3]], [0])).parts[0]
    sent = pickle.dumps(part)
    assert len(sent) < 500
    assert pickle.loads(sent).offsets.tolist() == [0, 2, 3]


@pytest.mark.parametrize("ending", ["bin", "idx"])
def test_200_of_200_flipped_bits_are_noticed_before_an_item_is_used(tmp_path, ending):
    stem = tmp_path / "train.tokens.0"
    values = written(stem, np.random.default_rng(1).integers(1, 9, 3000))
    file = stem.with_name(f"{stem.name}.{ending}")
    whole, draw = file.read_bytes(), np.random.default_rng(2)
    for bit in draw.integers(0, 8 * len(whole), 200).tolist():
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        with pytest.raises(ToolkitError, match=r"train.tokens.0"):
            use_every_item(stem, len(values))
    file.write_bytes(whole)
    use_every_item(stem, len(values))


def use_every_item(stem, elements):
    part = CheckedColumnPart(stem, "train", "tokens")
    starts, ends = part.offsets[:-1], part.offsets[1:]
    Column("tokens", [part]).take(starts[:, None], starts, ends)


def test_damage_is_named_by_split_column_and_item_and_only_where_it_is(tmp_path):
    stem = tmp_path / "valid.tokens.3"
    values = written(stem, [1000] * 2000)
    file = stem.with_name(stem.name + ".bin")
    damaged = bytearray(file.read_bytes())
    damaged[128 + 2 * 700_000] ^= 4  # in the second MiB
    file.write_bytes(damaged)
    column = Column("tokens", [CheckedColumnPart(stem, "valid", "tokens")])
    assert take(column, 100_000, 100_002) == values[100_000:100_002].tolist()
    with pytest.raises(ToolkitError) as caught:
        take(column, 900_500, 900_600)
    assert str(caught.value) == (
        f"{file} (split 'valid', column 'tokens') does not match its checksums: block 1, which "
        f"holds item 900, is damaged. Copy the folder again, or run toolkit-preprocess again."
    )


def test_bin_and_idx_of_different_runs_are_rejected(tmp_path):
    written(tmp_path / "a", [1, 2])
    written(tmp_path / "b", [1, 2, 3])
    (tmp_path / "b.idx").rename(tmp_path / "a.idx")
    with pytest.raises(ToolkitError, match="must agree on items, but say 2 and 3"):
        CheckedColumnPart(tmp_path / "a", "train", "tokens")


@pytest.mark.parametrize("ending", ["bin", "idx"])
def test_mixed_files_of_equal_size_are_rejected(tmp_path, ending):
    written(tmp_path / "a", [2, 2, 1]), written(tmp_path / "b", [1, 2, 2], seed=1)
    old, new = (tmp_path / f"{name}.{ending}" for name in "ba")
    new.write_bytes(new.read_bytes()[:128] + old.read_bytes()[128:])
    with pytest.raises(ToolkitError, match=rf"checksum table of .*a.{ending} does not match"):
        CheckedColumnPart(tmp_path / "a", "train", "tokens").check_all()


def test_renamed_file_is_rejected(tmp_path):
    written(tmp_path / "a", [1, 2])
    (tmp_path / "a.idx").rename(tmp_path / "a.bin")
    with pytest.raises(ToolkitError, match=r"must be a .bin file, but its header says .idx"):
        CheckedColumnPart(tmp_path / "a", "train", "tokens")


def test_opening_reads_no_payload(tmp_path):
    stem = tmp_path / "a"
    written(stem, [5] * 50)
    for ending in ("bin", "idx"):
        file = stem.with_name(f"a.{ending}")
        content = bytearray(file.read_bytes())
        content[128:] = b"\xff" * (len(content) - 128)
        file.write_bytes(content)
    assert CheckedColumnPart(stem, "train", "tokens").header.items == 50


def test_a_hundred_million_items_open_without_being_read(tmp_path):
    counts = {"items": 10**8, "elements": 2 * 10**9, "documents": 10**7, "table_crc": 0}
    for role, payload in (("bin", 4 * 10**9), ("idx", 8 * (10**8 + 1 + 10**7))):
        sizes = {**counts, "payload_bytes": payload, "dtype": "<u2", "fingerprint": "0" * 64}
        header = Header(role=role, **sizes)
        with (tmp_path / f"a.{role}").open("wb") as file:
            file.write(header.pack())
            file.truncate(header.file_bytes)  # a hole: nothing of it is on the disk
    tracemalloc.start()
    part = CheckedColumnPart(tmp_path / "a", "train", "tokens")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert (part.items, part.documents) == (10**8, 10**7)
