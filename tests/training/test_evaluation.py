import math

import numpy as np
import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.data.loading.loader import BatchLoader
from toolkit.distributed import World
from toolkit.optim.update import Precision
from toolkit.training.evaluation import compute_metrics, evaluate_in_parts, evaluate_model

FP32 = Precision("fp32", torch.device("cpu"))


def evaluated(trainer, loader, examples, world=None):
    return evaluate_model(
        trainer.learner,
        trainer.criterion,
        loader,
        examples=examples,
        world=world or World(),
        precision=FP32,
    )


def test_metrics_do_not_depend_on_the_batches(make_trainer, batches, memory, batch):
    trainer = make_trainer(dropout=0.5)
    together = batch(torch.cat([b.inputs.tokens for b in batches]))
    apart = evaluated(trainer, memory(batches), 24)
    whole = evaluated(trainer, memory([together]), 24)
    assert apart.keys() == {"loss", "word_loss", "even_loss", "ppl", "accuracy", "examples"}
    assert apart == pytest.approx(whole, abs=1e-6)


def test_loss_is_the_weighted_sum_of_the_objectives(make_trainer, batches, memory):
    figures = evaluated(make_trainer(), memory(batches), 24)
    wanted = figures["word_loss"] + 0.5 * figures["even_loss"]
    assert figures["loss"] == pytest.approx(wanted)


def test_evaluation_asserts_the_number_of_examples(make_trainer, batches, memory):
    for held in (23, 25):
        with pytest.raises(AssertionError, match=rf"saw 24 examples of a split that holds {held}"):
            evaluated(make_trainer(), memory(batches), held)


def test_evaluation_on_two_ranks_counts_every_example_once(ranks, make_trainer, batches, memory):
    def measure(world):
        loader = memory(batches[:1] + batches[2:], rank=world.rank, ranks=2)  # an odd number
        return evaluated(make_trainer(), loader, 19, world)

    first, second = ranks(measure)
    alone = evaluated(make_trainer(), memory(batches[:1] + batches[2:]), 19)
    assert first == second == pytest.approx(alone, abs=1e-6)


@pytest.mark.slow
def test_evaluation_includes_a_rank_without_batches(ranks, make_trainer, batches, memory):
    def measure(world):
        return evaluated(make_trainer(), memory(batches[:1], rank=world.rank, ranks=2), 3, world)

    first, second = ranks(measure)
    assert first == second and first["examples"] == 3


class Splittable(BatchLoader):
    """A loader of 20 examples that can collate any of them again."""

    def __init__(self, batch):
        self.batch = batch

    def evaluation(self):
        raise NotImplementedError

    def evaluation_ids(self, number):
        return np.arange(8) + 8 * number

    def collate(self, ids):
        return self.batch([[1 + int(i) % 10, int(i)] for i in ids])


@pytest.fixture
def evaluated_parts(batch):
    """The parts in which a batch of eight is evaluated if only `capacity` examples fit."""

    def evaluate_with(capacity, number=0):
        parts, splittable = [], Splittable(batch)

        def evaluate(part):
            if part.sentences > capacity:
                raise torch.OutOfMemoryError("Tried to allocate 2 GiB.")
            parts.append(part.inputs.tokens[:, 1].tolist())

        ids = splittable.evaluation_ids(number)
        whole = splittable.collate(ids)
        evaluate_in_parts(splittable, whole, lambda: ids, evaluate)
        return parts

    return evaluate_with


def test_batches_that_do_not_fit_are_split_and_each_example_counts_once(
    evaluated_parts,
):
    assert evaluated_parts(4, number=1) == [[8, 9, 10, 11], [12, 13, 14, 15]]
    assert evaluated_parts(3) == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_evaluation_fails_if_a_single_example_does_not_fit(evaluated_parts):
    with pytest.raises(ToolkitError, match=r"a single example \(Tried to allocate 2 GiB\). Lower"):
        evaluated_parts(0)


def test_undefined_metrics_are_nan_and_leave_the_others_alone():
    sums = {
        **{
            "over loss mlm": 8.0,
            "under loss mlm": 4.0,
            "over loss sop": 0.0,
            "under loss sop": 0.0,
        },
        **{"over precision": 0.0, "under precision": 0.0, "over accuracy": 3.0},
        **{"under accuracy": 4.0, "power word_ppl": 8.0, "under word_ppl": 0.0},
        **{"above auc": 0.0, "below auc": 1.0},
    }
    sums = {name: np.asarray(value) for name, value in sums.items()}
    found = compute_metrics(sums, {"mlm": 1.0, "sop": 1.0}, with_perplexity=True)
    defined = {name: value for name, value in found.items() if not math.isnan(value)}
    assert defined == pytest.approx({"mlm_loss": 2.0, "ppl": math.exp(2), "accuracy": 0.75})
    assert found.keys() - defined.keys() == {"loss", "sop_loss", "precision", "word_ppl", "auc"}
    unlabeled = {name: value for name, value in sums.items() if "loss" not in name}
    found = compute_metrics(unlabeled, {"mlm": 1.0}, with_perplexity=True)
    assert found == {"accuracy": 0.75}
