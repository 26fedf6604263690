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


def random(positions, rows=4):
    return torch.randn(rows, 2, positions, 3)


def test_key_value_cache_returns_all_positions_so_far():
    cache, k, v = KeyValueCache(), random(70), random(70)
    for start, end in (
        (0, 1),
        (1, 30),
        (30, 33),
        (33, 70),
    ):  # beyond the first capacity, and the next
        keys, values = cache.append(k[:, :, start:end], v[:, :, start:end])
        assert torch.equal(keys, k[:, :, :end]) and torch.equal(values, v[:, :, :end])


@pytest.mark.parametrize("rows", [[2, 2, 0, 3], [3, 1], [0, 1, 2, 3, 0, 0]])
def test_key_value_cache_continues_reordered_rows(rows):
    cache, k, v, rows = KeyValueCache(), random(5), random(5), torch.tensor(rows)
    cache.append(k, v)
    cache.reorder(RowReordering.from_rows(rows))
    more = random(1, len(rows))
    keys, values = cache.append(more, more)
    assert torch.equal(keys, torch.cat([k[rows], more], 2))
    assert torch.equal(values, torch.cat([v[rows], more], 2))


def test_key_value_cache_undoes_a_reversal_of_rows():
    cache, k, reverse = KeyValueCache(), random(5), torch.tensor([3, 2, 1, 0])
    cache.append(k, k)
    cache.reorder(RowReordering.from_rows(reverse))
    cache.reorder(RowReordering.from_rows(reverse))
    assert torch.equal(cache.append(random(1), random(1))[0][:, :, :5], k)


def test_convolution_cache_returns_its_last_inputs_after_zeros():
    cache, v = ConvolutionCache(2), random(4)
    first = cache.append(v[:, :, :1], v[:, :, :1])[1]
    assert torch.equal(first, torch.cat([torch.zeros(4, 2, 2, 3), v[:, :, :1]], 2))
    cache.append(v[:, :, 1:3], v[:, :, 1:3])
    assert torch.equal(cache.append(v[:, :, 3:], v[:, :, 3:])[1], v[:, :, 1:])


def test_convolution_cache_of_window_0_is_empty():
    cache, v = ConvolutionCache(0), random(2)
    assert torch.equal(cache.append(v, v)[1], v) and torch.equal(cache.append(v, v)[1], v)


def test_convolution_cache_continues_reordered_rows():
    cache, v, rows = ConvolutionCache(2), random(2), torch.tensor([1, 1, 3])
    cache.append(v, v)
    cache.reorder(RowReordering.from_rows(rows))
    more = random(1, 3)
    assert torch.equal(cache.append(more, more)[1], torch.cat([v[rows], more], 2))


def source(rows=3):
    padding = torch.arange(5) >= torch.tensor([5, 3, 4])[:, None]
    return EncoderKV(random(5, rows), random(5, rows), padding)


def fail():
    raise AssertionError("a source is read once")


def test_encoder_kv_cache_computes_a_source_once():
    cache, kv = EncoderKVCache(), source()
    assert cache.get_or_compute(lambda: kv) is kv and cache.get_or_compute(fail) is kv


def test_encoder_kv_cache_is_unchanged_by_reordering_within_sources():
    cache, kv = EncoderKVCache(), source()
    cache.get_or_compute(lambda: kv)
    cache.reorder(RowReordering.from_rows(torch.tensor([1, 1, 2, 3, 5, 4]), 2, 3, 2))
    assert cache.get_or_compute(fail) is kv


@pytest.mark.parametrize(
    ("rows", "sources"), [([2, 2, 5, 4], [1, 2]), ([5, 4, 0, 0, 3, 2], [2, 0, 1]), ([3, 2], [1])]
)
def test_encoder_kv_cache_follows_its_rows(rows, sources):
    cache, kv = EncoderKVCache(), source()
    cache.get_or_compute(lambda: kv)
    cache.reorder(RowReordering.from_rows(torch.tensor(rows), 2, 3, 2))
    assert all(
        torch.equal(actual, before[sources])
        for actual, before in zip(cache.get_or_compute(fail), kv, strict=True)
    )


def test_encoder_kv_cache_follows_rows_after_a_source_has_ended():
    cache, kv = EncoderKVCache(), source()
    cache.get_or_compute(lambda: kv)
    cache.reorder(RowReordering.from_rows(torch.tensor([1, 2]), 1, 3))
    cache.reorder(RowReordering.from_rows(torch.tensor([1]), 1, 2))
    assert torch.equal(cache.get_or_compute(fail).k, kv.k[2:])


def test_decoding_cache_expands_rows_to_a_beam():
    own, source_cache, k = KeyValueCache(), EncoderKVCache(), random(2, 3)
    cache = DecodingCache(3, [LayerCache(own, source_cache)])
    own.append(k, k)
    source_cache.get_or_compute(source)
    cache.reorder(torch.tensor([0, 0, 2, 2]), beam=2)
    assert source_cache.source_count == 2 and cache.rows == 4
    cache.reorder(torch.tensor([2, 3]))
    assert source_cache.source_count == 1
    assert torch.equal(own.append(k[:2, :, :1], k[:2, :, :1])[0][:, :, :2], k[[2, 2]])


def test_decoding_cache_reorders_its_layers():
    own, source_cache = KeyValueCache(), EncoderKVCache()
    cache, k = DecodingCache(4, [LayerCache(own, source_cache)]), random(2)
    own.append(k, k)
    cache.reorder(torch.tensor([3, 0]))
    assert cache.rows == 2 and source_cache.source_count == 0  # not read yet
    assert torch.equal(own.append(k[:2], k[:2])[0][:, :, :2], k[[3, 0]])
