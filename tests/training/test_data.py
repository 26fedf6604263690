from toolkit.data.folder import DataFolder
from toolkit.distributed import World
from toolkit.training.data import names, sizes_of, split_of


def split(config, data, rank=0, ranks=1, **options):
    c = config(**options)
    world = World(rank=rank, size=ranks)
    folder = DataFolder.open(data)
    return split_of("train", folder, c.task, c.data, world=world, seed=1, training=True)


def test_ranks_share_the_micro_batches_of_one_process(config, data):
    alone = split(config, data).loader
    pair = [split(config, data, rank, 2).loader for rank in (0, 1)]
    together = [batch for update in alone.updates(1, update_freq=2) for batch in update]
    shared = [batch for both in zip(*(p.updates(1) for p in pair), strict=True) for [batch] in both]
    for got, want in zip(shared, together, strict=False):
        assert got.inputs.tokens.equal(want.inputs.tokens) and got.targets.equal(want.targets)


def test_without_a_bound_a_micro_batch_has_32_examples(config, data):
    sizes = [b.sentences for [b] in split(config, data, batch_size=None).loader.updates(1)]
    assert sorted(sizes) == [6, 32]


def test_subsets_are_separated_by_commas():
    assert names("valid, test,") == ["valid", "test"] and names("") == []


def test_sizes_are_those_of_the_vocabulary(data):
    folder = DataFolder.open(data)
    assert sizes_of(folder).tokens == len(folder.vocabulary)
