import pytest
import torch

from toolkit.nn.decoding_cache import (
    ConvolutionCache,
    DecodingCache,
    EncoderKV,
    EncoderKVCache,
    KeyValueCache,
    LayerCache,
    RowReordering,
)


def random(places, rows=4):
    return torch.randn(rows, 2, places, 3)


def test_keys_and_values_are_those_of_all_places_so_far():
    kept, k, v = KeyValueCache(), random(70), random(70)
    for begin, end in ((0, 1), (1, 30), (30, 33), (33, 70)):  # beyond the first room, and the next
        keys, values = kept.append(k[:, :, begin:end], v[:, :, begin:end])
        assert torch.equal(keys, k[:, :, :end]) and torch.equal(values, v[:, :, :end])


@pytest.mark.parametrize("rows", [[2, 2, 0, 3], [3, 1], [0, 1, 2, 3, 0, 0]])
def test_rows_of_keys_and_values_go_on_from_others(rows):
    kept, k, v, rows = KeyValueCache(), random(5), random(5), torch.tensor(rows)
    kept.append(k, v)
    kept.reorder(RowReordering.from_rows(rows))
    more = random(1, len(rows))
    keys, values = kept.append(more, more)
    assert torch.equal(keys, torch.cat([k[rows], more], 2))
    assert torch.equal(values, torch.cat([v[rows], more], 2))


def test_rows_reordered_twice_come_back():
    kept, k, back = KeyValueCache(), random(5), torch.tensor([3, 2, 1, 0])
    kept.append(k, k)
    kept.reorder(RowReordering.from_rows(back))
    kept.reorder(RowReordering.from_rows(back))
    assert torch.equal(kept.append(random(1), random(1))[0][:, :, :5], k)


def test_a_window_remembers_its_last_inputs_and_zeros_before_the_first():
    kept, v = ConvolutionCache(2), random(4)
    first = kept.append(v[:, :, :1], v[:, :, :1])[1]
    assert torch.equal(first, torch.cat([torch.zeros(4, 2, 2, 3), v[:, :, :1]], 2))
    kept.append(v[:, :, 1:3], v[:, :, 1:3])
    assert torch.equal(kept.append(v[:, :, 3:], v[:, :, 3:])[1], v[:, :, 1:])


def test_a_window_of_one_place_remembers_nothing():
    kept, v = ConvolutionCache(0), random(2)
    assert torch.equal(kept.append(v, v)[1], v) and torch.equal(kept.append(v, v)[1], v)


def test_rows_of_a_window_go_on_from_others():
    kept, v, rows = ConvolutionCache(2), random(2), torch.tensor([1, 1, 3])
    kept.append(v, v)
    kept.reorder(RowReordering.from_rows(rows))
    more = random(1, 3)
    assert torch.equal(kept.append(more, more)[1], torch.cat([v[rows], more], 2))


def source(rows=3):
    padding = torch.arange(5) >= torch.tensor([5, 3, 4])[:, None]
    return EncoderKV(random(5, rows), random(5, rows), padding)


def never():
    raise AssertionError("a source is read once")


def test_a_source_is_read_once():
    kept, read = EncoderKVCache(), source()
    assert kept.get_or_compute(lambda: read) is read and kept.get_or_compute(never) is read


def test_rows_that_change_places_within_their_source_move_nothing():
    kept, read = EncoderKVCache(), source()
    kept.get_or_compute(lambda: read)
    kept.reorder(RowReordering.from_rows(torch.tensor([1, 1, 2, 3, 5, 4]), 2, 3, 2))
    assert kept.get_or_compute(never) is read


@pytest.mark.parametrize(
    ("rows", "sources"), [([2, 2, 5, 4], [1, 2]), ([5, 4, 0, 0, 3, 2], [2, 0, 1]), ([3, 2], [1])]
)
def test_sources_go_with_their_rows(rows, sources):
    kept, read = EncoderKVCache(), source()
    kept.get_or_compute(lambda: read)
    kept.reorder(RowReordering.from_rows(torch.tensor(rows), 2, 3, 2))
    assert all(
        torch.equal(got, want[sources])
        for got, want in zip(kept.get_or_compute(never), read, strict=True)
    )


def test_a_source_that_left_first_does_not_hide_that_others_moved():
    kept, read = EncoderKVCache(), source()
    kept.get_or_compute(lambda: read)
    kept.reorder(RowReordering.from_rows(torch.tensor([1, 2]), 1, 3))
    kept.reorder(RowReordering.from_rows(torch.tensor([1]), 1, 2))
    assert torch.equal(kept.get_or_compute(never).k, read.k[2:])


def test_rows_from_one_source_become_more_of_them():
    own, read, k = KeyValueCache(), EncoderKVCache(), random(2, 3)
    cache = DecodingCache(3, [LayerCache(own, read)])
    own.append(k, k)
    read.get_or_compute(source)
    cache.reorder(torch.tensor([0, 0, 2, 2]), beam=2)
    assert read.source_count == 2 and cache.rows == 4
    cache.reorder(torch.tensor([2, 3]))
    assert read.source_count == 1
    assert torch.equal(own.append(k[:2, :, :1], k[:2, :, :1])[0][:, :, :2], k[[2, 2]])


def test_a_cache_reorders_what_its_layers_keep_and_knows_its_rows():
    own, read = KeyValueCache(), EncoderKVCache()
    cache, k = DecodingCache(4, [LayerCache(own, read)]), random(2)
    own.append(k, k)
    cache.reorder(torch.tensor([3, 0]))
    assert cache.rows == 2 and read.source_count == 0  # not read yet
    assert torch.equal(own.append(k[:2], k[:2])[0][:, :, :2], k[[3, 0]])
