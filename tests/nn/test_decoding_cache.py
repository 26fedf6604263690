import pytest
import torch

from toolkit.nn.decoding_cache import (
    Cache,
    KeysAndValues,
    LastInputs,
    LayerCache,
    Moves,
    Read,
    SourceRead,
)


def random(places, rows=4):
    return torch.randn(rows, 2, places, 3)


def test_keys_and_values_are_those_of_all_places_so_far():
    kept, k, v = KeysAndValues(), random(70), random(70)
    for begin, end in ((0, 1), (1, 30), (30, 33), (33, 70)):  # beyond the first room, and the next
        keys, values = kept.extended(k[:, :, begin:end], v[:, :, begin:end])
        assert torch.equal(keys, k[:, :, :end]) and torch.equal(values, v[:, :, :end])


@pytest.mark.parametrize("rows", [[2, 2, 0, 3], [3, 1], [0, 1, 2, 3, 0, 0]])
def test_rows_of_keys_and_values_go_on_from_others(rows):
    kept, k, v, rows = KeysAndValues(), random(5), random(5), torch.tensor(rows)
    kept.extended(k, v)
    kept.reorder(Moves.of(rows))
    more = random(1, len(rows))
    keys, values = kept.extended(more, more)
    assert torch.equal(keys, torch.cat([k[rows], more], 2))
    assert torch.equal(values, torch.cat([v[rows], more], 2))


def test_rows_reordered_twice_come_back():
    kept, k, back = KeysAndValues(), random(5), torch.tensor([3, 2, 1, 0])
    kept.extended(k, k)
    kept.reorder(Moves.of(back))
    kept.reorder(Moves.of(back))
    assert torch.equal(kept.extended(random(1), random(1))[0][:, :, :5], k)


def test_a_window_remembers_its_last_inputs_and_zeros_before_the_first():
    kept, v = LastInputs(2), random(4)
    first = kept.extended(v[:, :, :1], v[:, :, :1])[1]
    assert torch.equal(first, torch.cat([torch.zeros(4, 2, 2, 3), v[:, :, :1]], 2))
    kept.extended(v[:, :, 1:3], v[:, :, 1:3])
    assert torch.equal(kept.extended(v[:, :, 3:], v[:, :, 3:])[1], v[:, :, 1:])


def test_a_window_of_one_place_remembers_nothing():
    kept, v = LastInputs(0), random(2)
    assert torch.equal(kept.extended(v, v)[1], v) and torch.equal(kept.extended(v, v)[1], v)


def test_rows_of_a_window_go_on_from_others():
    kept, v, rows = LastInputs(2), random(2), torch.tensor([1, 1, 3])
    kept.extended(v, v)
    kept.reorder(Moves.of(rows))
    more = random(1, 3)
    assert torch.equal(kept.extended(more, more)[1], torch.cat([v[rows], more], 2))


def source(rows=3):
    padding = torch.arange(5) >= torch.tensor([5, 3, 4])[:, None]
    return Read(random(5, rows), random(5, rows), padding)


def never():
    raise AssertionError("a source is read once")


def test_a_source_is_read_once():
    kept, read = SourceRead(), source()
    assert kept.of(lambda: read) is read and kept.of(never) is read


def test_rows_that_change_places_within_their_source_move_nothing():
    kept, read = SourceRead(), source()
    kept.of(lambda: read)
    kept.reorder(Moves.of(torch.tensor([1, 1, 2, 3, 5, 4]), 2, 3, 2))
    assert kept.of(never) is read


@pytest.mark.parametrize(
    ("rows", "sources"), [([2, 2, 5, 4], [1, 2]), ([5, 4, 0, 0, 3, 2], [2, 0, 1]), ([3, 2], [1])]
)
def test_sources_go_with_their_rows(rows, sources):
    kept, read = SourceRead(), source()
    kept.of(lambda: read)
    kept.reorder(Moves.of(torch.tensor(rows), 2, 3, 2))
    assert all(
        torch.equal(got, want[sources]) for got, want in zip(kept.of(never), read, strict=True)
    )


def test_a_source_that_left_first_does_not_hide_that_others_moved():
    kept, read = SourceRead(), source()
    kept.of(lambda: read)
    kept.reorder(Moves.of(torch.tensor([1, 2]), 1, 3))
    kept.reorder(Moves.of(torch.tensor([1]), 1, 2))
    assert torch.equal(kept.of(never).k, read.k[2:])


def test_rows_from_one_source_become_more_of_them():
    own, read, k = KeysAndValues(), SourceRead(), random(2, 3)
    cache = Cache(3, [LayerCache(own, read)])
    own.extended(k, k)
    read.of(source)
    cache.reorder(torch.tensor([0, 0, 2, 2]), beam=2)
    assert read.count == 2 and cache.rows == 4
    cache.reorder(torch.tensor([2, 3]))
    assert read.count == 1
    assert torch.equal(own.extended(k[:2, :, :1], k[:2, :, :1])[0][:, :, :2], k[[2, 2]])


def test_a_cache_reorders_what_its_layers_keep_and_knows_its_rows():
    own, read = KeysAndValues(), SourceRead()
    cache, k = Cache(4, [LayerCache(own, read)]), random(2)
    own.extended(k, k)
    cache.reorder(torch.tensor([3, 0]))
    assert cache.rows == 2 and read.count == 0  # not read yet
    assert torch.equal(own.extended(k[:2], k[:2])[0][:, :, :2], k[[3, 0]])
