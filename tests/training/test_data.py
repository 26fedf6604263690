import re

import numpy as np
import pytest
import torch

from tests.helpers.fairseq_files import write_folder
from toolkit.common.errors import ToolkitError
from toolkit.config.sections import DataConfig
from toolkit.data.storage.data_folder import Corpora
from toolkit.distributed import World
from toolkit.training.callbacks.stopping import count_total_updates
from toolkit.training.data import TrainingData, batch_limits
from toolkit.training.run import run
from toolkit.training.step import TrainingProgress

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "how", "dogs", "run", "far"]


@pytest.fixture
def folders(tmp_path):
    """Folders of 20, 34 and 10 pairs of lines; the first two have 6 and 4 to validate on."""
    draw = np.random.default_rng(0)

    def lines(count):
        return [" ".join(draw.choice(WORDS, size=draw.integers(3, 9))) for _ in range(count)]

    for name, train, valid in (("a", 40, 12), ("b", 68, 8), ("c", 20, 0)):
        splits = {"train": lines(train), **({"valid": lines(valid)} if valid else {})}
        write_folder(tmp_path / name, WORDS, splits)
    return {name: str(tmp_path / name) for name in "abc"}


def training(config, *arguments, rank=0, ranks=1, **options):
    c = config(data__dirs=list(arguments), **options)
    world = World(rank=rank, size=ranks)
    return TrainingData(Corpora.open(*arguments), c.task, c.data, world=world, seed=1)


def served(data, epoch, **options):
    updates = data.loader_for(epoch).updates(epoch, **options)
    return [b.inputs.tokens.tolist() for update in updates for b in update]


@pytest.mark.parametrize(
    ("given", "kind", "training", "wanted"),
    [
        ({}, "cpu", False, (None, 32)),
        ({}, "cuda", True, (None, 32)),
        ({"batch_size": 8}, "cuda", False, (20_000, None)),
        ({"max_tokens": 512}, "cpu", False, (512, None)),
        ({"max_tokens": 512, "batch_size_valid": 4}, "cuda", False, (None, 4)),
        ({"batch_size": 8, "max_tokens_valid": 99}, "cpu", False, (99, None)),
        ({"batch_size": 8, "max_tokens_valid": 99}, "cpu", True, (None, 8)),
    ],
)
def test_batch_limits_of_evaluation_are_separate_and_larger_on_a_gpu(given, kind, training, wanted):
    assert (
        batch_limits(DataConfig(**given), 20_000, torch.device(kind), training=training) == wanted
    )


@pytest.mark.parametrize("multiple", [64, 256])
def test_selected_positions_of_training_batches_are_filled_up(config, folders, multiple):
    c = config(data__dirs=[folders["a"]])
    arguments = Corpora.open(folders["a"]), c.task, c.data
    data = TrainingData(*arguments, world=World(), seed=1, row_multiple=multiple)
    (batch,) = next(iter(data.loader_for(1).updates(1)))
    assert len(batch.selected) == multiple


def test_each_epoch_reads_its_shard_as_if_there_were_no_others(config, folders):
    sharded = training(config, f"{folders['a']}:{folders['b']}:{folders['c']}")
    for epoch, name in enumerate("abcabc", 1):
        alone = training(config, folders[name])
        assert sharded.micro_batches(epoch) == alone.micro_batches(epoch)
        assert served(sharded, epoch, start=1) == served(alone, epoch, start=1)


def test_count_total_updates_adds_up_shards_of_different_sizes(config, folders):
    sharded = training(config, f"{folders['a']}:{folders['b']}:{folders['c']}")
    c = config(max_epoch=5, update_freq=2).training  # batches of 8: 3, 5, 2, 3, 5
    assert (
        count_total_updates(c, sharded.micro_batches, World(), TrainingProgress())
        == 2 + 3 + 1 + 2 + 3
    )
    assert (
        count_total_updates(
            c, sharded.micro_batches, World(), TrainingProgress(update=3, epoch=2, consumed=2)
        )
        == 3 + 2 + 6
    )


def test_fingerprints_change_with_the_shards(config, folders):
    a, b, c = folders.values()
    found = [training(config, text).fingerprints for text in (f"{a}:{b}", f"{a}:{c}", a)]
    assert len({prints["examples"] for prints in found}) == 3
    assert found[0] == training(config, f"{a}:{b}").fingerprints


def test_corpus_weights_repeat_examples_with_different_masks(config, folders):
    a, c = folders["a"], folders["c"]
    mixed = training(config, a, c, data__weights=[0.5, 3.0], batch_size=1)
    assert mixed.description == "40 in train, 10 of 20 + 30 of 10"
    assert mixed.micro_batches(1) == len(served(mixed, 1)) == 40
    copies = [mixed.examples.collate(np.array([25 + k * 30]), 1) for k in range(3)]
    tokens = [copy.inputs.tokens.tolist() for copy in copies]
    assert tokens[0] != tokens[1] != tokens[2]


def test_description_counts_truncated_sentences(config, folders):
    assert training(config, folders["a"]).description == "20 in train"
    cut = training(config, folders["a"], tokens_per_sample=10).description
    assert re.fullmatch(r"20 in train, \d\d cut, \d\d tokens lost \(\d\d.\d%\)", cut)


def test_corpus_weights_count_examples_that_depend_on_the_corpora_before(config, folders):
    two, options = (
        list(folders.values())[:2],
        {"task__pair_mode": "electra", "tokens_per_sample": 20},
    )
    first = training(config, two[0], **options).description
    both = training(config, *two, **options).examples
    mixed = training(config, *two, data__weights=[2.0, 1.0], **options)
    count = int(first.split()[0])
    assert f", {2 * count} of {count} + " in mixed.description
    assert len(both.lengths) + count == int(mixed.description.split()[0])


def test_corpus_weights_do_not_depend_on_ranks_or_workers(config, folders):
    options = {"data__weights": [1.5, 0.3]}
    two = list(folders.values())[:2]
    alone = training(config, *two, **options)
    pair = [training(config, *two, rank=r, ranks=2, num_workers=r, **options) for r in (0, 1)]
    want = served(alone, 2)
    found = [served(data, 2) for data in pair]
    together = [batch for both in zip(*found, strict=True) for batch in both][: len(want)]
    assert together == want
    pair[1].close()


@pytest.mark.slow
@pytest.mark.parametrize("cut", [2, 6])
def test_run_over_shards_resumes_to_the_same_weights(folders, resumes_exactly, cut):
    shards = [f"{folders['a']}:{folders['b']}"]  # batches of 8: 3, 5, 3 updates
    resumes_exactly(cut, {"data.dirs": shards, "max_epoch": 3, "arch.dropout": 0.1})


def test_validation_reads_the_first_shard_that_has_the_split(config, folders):
    shards = f"{folders['c']}:{folders['b']}:{folders['a']}"
    result = run(config(data__dirs=[shards], max_update=2))
    assert result.valid["valid"]["examples"] == 4


def test_corpus_weights_reject_a_task_that_mixes_corpora(config, folders, monkeypatch):
    from toolkit.training import data as module

    real = module.make_examples

    def shuffled(task, source):
        found = real(task, source)
        mixed = len(source.folder.sources) > 1
        found.lengths = found.lengths[::-1].copy() if mixed else found.lengths
        return found

    monkeypatch.setattr(module, "make_examples", shuffled)
    with pytest.raises(ToolkitError, match=r"but mlm mixes them. Leave data.weights out"):
        training(config, folders["a"], folders["b"], data__weights=[1.0, 1.0])
