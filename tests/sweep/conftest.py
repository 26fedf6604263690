import pytest

from toolkit.sweep.ranking import (
    GridPoint,
    MetricSource,
    Outcome,
    group_by_configuration,
    rank_configurations,
)

LOSS = MetricSource(subset="valid", metric="loss")


@pytest.fixture
def outcome():
    """A finished run with this loss; the accuracy is its negative."""

    def make(seed, loss, **values):
        valid = {"valid": {"loss": loss, "accuracy": -loss}}
        return Outcome(GridPoint(values, seed), {"valid": valid})

    return make


@pytest.fixture
def ranking(outcome):
    """Ranks rows by their losses: {"a": {seed: loss}} or {"a": [loss of seed 0, ...]}."""

    def make(losses, metric="loss", rank_by="mean", option="x"):
        outcomes = [
            outcome(seed, loss, **{option: name})
            for name, seeds in losses.items()
            for seed, loss in (seeds if isinstance(seeds, dict) else dict(enumerate(seeds))).items()
        ]
        source = MetricSource(subset="valid", metric=metric)
        return rank_configurations(group_by_configuration(outcomes, source), metric, rank_by)

    return make
