"""Options that change during a run, and curricula: what each update and batch has."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import chain

import numpy as np
import pytest

from toolkit import ToolkitError
from toolkit.common.registry import TASKS
from toolkit.config.sections import ComponentConfig, DataConfig
from toolkit.data.storage.data_folder import Corpora, DataFolder
from toolkit.distributed import World
from toolkit.tasks.examples import SplitSource
from toolkit.training.data import TrainingData
from toolkit.training.run import TrainingRun, run


def training_data(c, rank=0, ranks=1):
    """The data of a run of two epochs."""
    world, corpora = World(rank=rank, size=ranks), Corpora.of_run(c.data)
    data = TrainingData(corpora, c.task, c.data, world=world, seed=1, schedules=c.schedules)
    data.schedules.epochs = 2.0
    return data


def plain(batch):
    targets = [getattr(batch, name) for name in batch._fields if name.endswith("targets")]
    return batch.inputs.tokens.tolist(), [it.tolist() for it in targets]


def batches(data, epoch):
    """The tokens and targets of an epoch's micro-batches."""
    return [plain(it) for update in data.loader_for(epoch).updates(epoch) for it in update]


@pytest.mark.parametrize("option", ["task.tokens_per_sample", "data.batch_size", "data.max_tokens"])
def test_epochs_of_steps_have_the_batches_of_runs_with_plain_values(config, option):
    steps = training_data(config(**{option: "24@0,48@1epochs,96@2epochs"}))
    for epoch, value in ((1, 24), (2, 48), (4, 96), (1, 24)):
        assert batches(steps, epoch) == batches(training_data(config(**{option: value})), epoch)


@pytest.mark.parametrize(
    ("task", "option"), [("mlm", "mask_rate"), ("denoising", "mask_rate"), ("mpm", "position_rate")]
)
def test_rate_of_each_batch_is_that_of_its_part_of_the_epoch(config, task, option):
    falling = config(task=task, tokens_per_sample=24, **{f"task.{option}": "0.4:0.1"})
    data, pair = training_data(falling), [training_data(falling, rank, 2) for rank in (0, 1)]
    found = batches(data, 2)
    for index, batch in enumerate(found):
        rate = 0.4 - 0.3 * (1 + index / len(found)) / 2
        examples = training_data(
            config(task=task, tokens_per_sample=24, **{f"task.{option}": rate})
        ).examples
        assert batch == plain(examples.collate(data.example_ids(2, index), 2.0))
    of_pair = [it for both in zip(*(batches(it, 2) for it in pair), strict=True) for it in both]
    assert of_pair[: len(found)] == found


def test_model_and_optimizer_have_the_values_of_each_update_and_the_last_ones_behind_it(config):
    options = {"arch.dropout": "0.3@0,0.1@50%", "arch.attention_window": "2@0,4@25%"}
    options |= {"optimizer.weight_decay": "0.1:0", "arch.layers": 2, "batch_size": 20}
    training = TrainingRun(config(**options), World())
    modules = dict(training.trainer.learner.encoder.named_modules())
    rate = next(it for name, it in modules.items() if name.endswith("dropout"))
    window = next(it for it in modules.values() if getattr(it, "window_radius", None))
    group = next(it for it in training.trainer.optimizer.param_groups if not it["no_decay"])
    seen = []

    class Observer:
        def on_gradients(self, scale):
            seen.append((rate.rate, window.window_radius, group["weight_decay"]))

        def __call__(self, step):
            pass

    loader_for = training.train.loader_for
    training.trainer.fit(loader_for, max_update=4, callbacks=[Observer()])
    assert (rate.rate, window.window_radius, group["weight_decay"]) == (0.1, 2, 0.0)
    decays = np.linspace(0.1, 0, len(seen), endpoint=False)
    wanted = [
        (0.3 if u < 2 else 0.1, 1 if u < 1 else 2, pytest.approx(decays[u])) for u in range(4)
    ]
    assert seen == wanted


@pytest.mark.slow
def test_shorter_run_goes_on_without_the_step_behind_its_end(config, stopped):
    steps = {"task.mask_rate": "0.4@0,0.2@1epochs"}
    stopped(config(**steps), 3)
    assert run(config(**steps, max_update=4)).updates == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task.mask_rate": "0.4@0,0.2@2epochs"}, "must reach 0.2 before the run ends"),
        ({"task.tokens_per_sample": "8@0,12@50%"}, "must change at the start of an epoch"),
        ({"task.tokens_per_sample": "12@0,8@1epochs"}, "must have its largest value last"),
        (
            {"task.tokens_per_sample": "16@0,64@1epochs", "task.sample_mode": "blocks"}
            | {"arch.positions": "learned", "arch.max_positions": 32},
            "the model reads at most 32 tokens at a time, but the longest example of train has 64",
        ),
        ({"arch.layers": "1@0,2@1epochs"}, "arch.layers must be one number: it cannot change"),
        ({"optimizer.lr": "0.1:0.01"}, "The learning rate follows --lr-scheduler"),
        ({"seed": "1@0,2@1epochs"}, "training.seed must be one number: it cannot change"),
        ({"arch.dropout": "0.2:0.1", "compile": True}, "cannot change during a run with"),
    ],
)
def test_schedule_that_cannot_be_followed_stops_the_run_before_its_first_update(
    config, options, message
):
    with pytest.raises(ToolkitError, match=message):
        TrainingRun(config(**options), World())


def load(config, data, rank=0, ranks=1, **options):
    c = config(**options)
    world = World(rank=rank, size=ranks)
    return TrainingData(Corpora.open(str(data)), c.task, c.data, world=world, seed=1)


def epoch_ids(training, epoch):
    return [training.example_ids(epoch, i).tolist() for i in range(training.micro_batches(epoch))]


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("mlm", {"tokens_per_sample": 16}),
        ("mlm", {"tokens_per_sample": 16, "sample_mode": "blocks"}),
        ("mlm", {"tokens_per_sample": 16, "pair_mode": "electra"}),
        ("language_modeling", {"tokens_per_sample": 9, "sample_mode": "items"}),
        ("denoising", {"tokens_per_sample": 12}),
    ],
)
def test_rarity_equals_a_loop_over_the_tokens(data, task, options):
    folder, config = DataFolder.open(data), dataclasses.replace(TASKS[task].config, **options)
    examples = TASKS[task].factory.examples(config, SplitSource(folder, "train", 1, True))
    counts = Counter(folder.split("train").column("tokens").read_all().tolist())
    tokens = examples.text[0].read_tokens(np.arange(len(examples)))
    expected = [
        -sum(np.log(counts[it] / counts.total()) for it in row if it in counts)
        for row in tokens.tolist()
    ]
    np.testing.assert_allclose(examples.measure_rarity(), expected, rtol=1e-12)
    assert np.std(expected) > 1


def test_first_epochs_follow_the_file_and_all_ranks_the_same_plan(config, data, tmp_path):
    scores = np.random.default_rng(0).permutation(38) / 2
    (tmp_path / "scores").write_text("\n".join(map(str, scores)) + "\n")
    how = {
        "data.curriculum": str(tmp_path / "scores"),
        "data.curriculum_epochs": 2,
        "batch_size": 4,
    }
    sorts = load(config, data, **how)
    for epoch in (1, 2):
        means = [scores[ids].mean() for ids in epoch_ids(sorts, epoch)]
        assert means == sorted(means)
        assert sorted(chain(*epoch_ids(sorts, epoch))) == list(range(38))
    plain = load(config, data, batch_size=4)
    assert epoch_ids(sorts, 3) == epoch_ids(plain, 3)
    assert sorts.fingerprints["order"] != plain.fingerprints["order"]
    assert sorts.fingerprints["examples"] == plain.fingerprints["examples"]
    other = load(config, data, rank=1, ranks=2, **how)
    assert epoch_ids(other, 1) == epoch_ids(sorts, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"must be length, rarity or a file .* is .*scores, and there is no such file"),
        ("1\n-2e3\nx\n", r"scores:3: expected a number, found 'x'"),
        ("1\nnan\n2\n", r"scores:2: expected a number, found 'nan'"),
        ("1\n2\n", r"number for each of the 38 training examples, but has 2"),
    ],
)
def test_bad_scores_are_one_line(config, data, tmp_path, text, message):
    if text is not None:
        (tmp_path / "scores").write_text(text)
    with pytest.raises(ToolkitError, match=message):
        load(config, data, **{"data.curriculum": str(tmp_path / "scores")})


def test_combinations_that_cannot_be_sorted_say_why(parallel):
    with pytest.raises(ToolkitError, match=r"cannot be combined with data\.fill_batches"):
        DataConfig(curriculum="length", fill_batches=True, max_tokens=512)
    task, c = ComponentConfig("translation", TASKS["translation"].config), {"curriculum": "rarity"}
    with pytest.raises(ToolkitError, match=r"rarity requires a task on plain text"):
        TrainingData(Corpora.open(str(parallel)), task, DataConfig(**c), world=World(), seed=1)
