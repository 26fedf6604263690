import pytest
import torch

from toolkit.nn.decoding_cache import (
    ConvolutionCache,
    DecodingCache,
    KeyValueCache,
    SourceCache,
)


def random(positions, rows=4):
    return torch.randn(rows, 2, positions, 3)


def reorder(cache, rows):
    DecodingCache(4, [(cache, None)]).reorder(rows)


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
    reorder(cache, rows)
    more = random(1, len(rows))
    keys, values = cache.append(more, more)
    assert torch.equal(keys, torch.cat([k[rows], more], 2))
    assert torch.equal(values, torch.cat([v[rows], more], 2))


def test_key_value_cache_undoes_a_reversal_of_rows():
    cache, k, reverse = KeyValueCache(), random(5), torch.tensor([3, 2, 1, 0])
    cache.append(k, k)
    reorder(cache, reverse)
    reorder(cache, reverse)
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
    reorder(cache, rows)
    more = random(1, 3)
    assert torch.equal(cache.append(more, more)[1], torch.cat([v[rows], more], 2))


def cache_source(rows):
    """A decoding cache of three sources that was read, and what it read."""
    padding = torch.arange(5) >= torch.tensor([5, 3, 4])[:, None]
    source = SourceCache()
    source.kv = random(5, 3), random(5, 3), padding
    return DecodingCache(rows, [(KeyValueCache(), source)]), source, source.kv


def test_cache_of_sources_is_unchanged_by_reordering_within_them():
    cache, source, kv = cache_source(6)
    cache.reorder(torch.tensor([1, 1, 2, 3, 5, 4]))
    assert source.kv is kv


@pytest.mark.parametrize(
    ("rows", "sources"), [([2, 2, 5, 4], [1, 2]), ([5, 4, 0, 0, 3, 2], [2, 0, 1]), ([3, 2], [1])]
)
def test_cache_of_sources_follows_its_rows(rows, sources):
    cache, source, kv = cache_source(6)
    cache.reorder(torch.tensor(rows))
    for actual, before in zip(source.kv, kv, strict=True):
        assert torch.equal(actual, before[sources])


def test_cache_of_sources_follows_rows_after_a_source_has_ended():
    cache, source, kv = cache_source(3)
    cache.reorder(torch.tensor([1, 2]))
    cache.reorder(torch.tensor([1]))
    assert torch.equal(source.kv[0], kv[0][2:])


def test_decoding_cache_expands_rows_to_a_beam():
    (cache, _, _), k = cache_source(3), random(2, 3)
    own = cache.layers[0][0]
    own.append(k, k)
    cache.reorder(torch.tensor([0, 0, 2, 2]), beam=2)
    assert cache.source_count == 2 and cache.rows == 4
    cache.reorder(torch.tensor([2, 3]))
    assert cache.source_count == 1
    assert torch.equal(own.append(k[:2, :, :1], k[:2, :, :1])[0][:, :, :2], k[[2, 2]])


def test_decoding_cache_reorders_its_layers():
    own = KeyValueCache()
    cache, k = DecodingCache(4, [(own, SourceCache())]), random(2)
    own.append(k, k)
    cache.reorder(torch.tensor([3, 0]))
    assert cache.rows == 2 and cache.source_count == 0  # not read yet
    assert torch.equal(own.append(k[:2], k[:2])[0][:, :, :2], k[[3, 0]])
