import zlib

import numpy as np
import pytest

from toolkit.data.storage.checksums import BLOCK_BYTES, BlockChecks, RunningChecksums


def raise_damage(block):
    raise ValueError(f"block {block}")


@pytest.fixture
def payload():
    return np.random.default_rng(0).integers(0, 256, 3 * BLOCK_BYTES + 17).astype(np.uint8)


def blocks_of(payload):
    sums = RunningChecksums()
    sums.add(payload.tobytes())
    return BlockChecks(payload, np.frombuffer(sums.table(), "<u4"))


def check(blocks, start, end):
    blocks.check(np.array([start]), np.array([end]), raise_damage)


@pytest.mark.parametrize("step", [1 << 16, BLOCK_BYTES, BLOCK_BYTES + 1, 10**9])
def test_checksum_table_holds_the_crc32_of_each_mebibyte_for_any_chunks(payload, step):
    sums, data = RunningChecksums(), payload.tobytes()
    for start in range(0, len(data), step):
        sums.add(data[start : start + step])
    want = [zlib.crc32(data[i : i + BLOCK_BYTES]) for i in range(0, len(data), BLOCK_BYTES)]
    assert np.frombuffer(sums.table(), "<u4").tolist() == want


def test_a_whole_number_of_blocks_has_no_empty_last_one():
    sums = RunningChecksums()
    sums.add(b"\0" * BLOCK_BYTES)
    assert len(sums.table()) == 4


def test_damaged_block_is_found_when_it_is_read_and_not_before(payload):
    blocks = blocks_of(payload)
    payload[BLOCK_BYTES + 5] ^= 1
    check(blocks, 0, BLOCK_BYTES)
    check(blocks, 2 * BLOCK_BYTES, len(payload))
    with pytest.raises(ValueError, match="block 1"):
        check(blocks, 0, BLOCK_BYTES + 1)


def test_a_range_over_many_blocks_checks_those_in_the_middle(payload):
    blocks = blocks_of(payload)
    payload[2 * BLOCK_BYTES] ^= 1
    with pytest.raises(ValueError, match="block 2"):
        check(blocks, 5, len(payload))


def test_a_range_between_good_ends_checks_those_in_the_middle(payload):
    blocks = blocks_of(payload)
    payload[BLOCK_BYTES] ^= 1
    check(blocks, 0, 10)
    check(blocks, 2 * BLOCK_BYTES, len(payload))
    with pytest.raises(ValueError, match="block 1"):
        check(blocks, 0, len(payload))


def test_empty_ranges_touch_nothing(payload):
    blocks = blocks_of(payload)
    payload[:] ^= 1
    check(blocks, 7, 7)


def test_block_is_verified_once(payload):
    blocks = blocks_of(payload)
    check(blocks, 0, 10)
    payload[3] ^= 1
    check(blocks, 0, 10)
