"""Callbacks of plugins in a run: hooks, state, options."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from toolkit import ToolkitError, register_callback
from toolkit.common import json_files
from toolkit.common.registry import CALLBACKS
from toolkit.config.declared import Options, PositiveInt
from toolkit.config.serialize import from_dict, to_dict
from toolkit.distributed import World
from toolkit.reporting.runs import read_log
from toolkit.training.run import TrainingRun, run

NAMES = ["watch_gradients", "count_only"]


@dataclass(frozen=True, kw_only=True)
class WatchConfig(Options, section="callback.watch_gradients"):
    every: PositiveInt = 2
    """Log every N updates."""


@register_callback("watch_gradients", WatchConfig())
class WatchGradients:
    """Sums gradient norms; calls are noted in the order they come."""

    def __init__(self, c, context):
        self.c, self.context, self.sum, self.calls = c, context, 0.0, []

    def on_gradients(self, scale):
        parameters = self.context.trainer.parameters
        self.norm = float(torch.nn.utils.get_total_norm([p.grad for p in parameters])) / scale
        self.sum += self.norm
        self.calls.append("gradients")

    def __call__(self, step):
        self.calls.append("update")
        assert self.norm == pytest.approx(float(step.outcome.norm), rel=1e-5)
        if step.update % self.c.every == 0:
            self.context.log(sum=self.sum)

    def on_validation(self, update, metrics):
        self.calls.append(f"validation of {', '.join(metrics)} after {update}")

    def state(self):
        return {"sum": self.sum}

    def restore(self, state):
        self.sum = state["sum"]


@dataclass(frozen=True)
class NoOptions:
    pass


@register_callback("count_only", NoOptions())
def count_only(c, context):
    return lambda step: None


def test_callback_sees_gradients_updates_and_validations_in_order(config):
    training = TrainingRun(config(callbacks=NAMES, max_update=5, max_epoch=None), World())
    training.fit()
    training.close()
    watch = next(iter(training.plugins.values()))
    validation = "validation of valid after 5"
    assert watch.calls == [*["gradients", "update"] * 4, "gradients", validation, "update"]


def test_options_are_a_section_of_each_selected_callback(config, tmp_path):
    run(config(callbacks=NAMES, callback__watch_gradients__every=5, max_epoch=1))
    logged = [r for r in read_log(tmp_path / "run" / "metrics.jsonl") if "sum" in r]
    assert [(r["event"], r["update"]) for r in logged] == [("watch_gradients", 5)]


@pytest.mark.slow
def test_state_resumes_bit_for_bit(tmp_path, resumes_exactly):
    resumes_exactly(4, {"callbacks": ["watch_gradients"]})
    state = json_files.loads((tmp_path / "cut" / "checkpoint_last" / "state.json").read_text())
    assert state["callbacks"]["callback.watch_gradients"]["sum"] > 0


@pytest.mark.slow
def test_every_rank_calls_and_restores_its_callbacks(config, tmp_path, ranks):
    def train(world):
        options = {"callbacks": ["watch_gradients"], "batch_size": 4}
        for epochs in (1, 2):
            training = TrainingRun(config(**options, max_epoch=epochs), world)
            training.fit()
            training.close()
        return next(iter(training.plugins.values())).sum

    one, other = ranks(train)
    assert one == other > 0


def test_saved_config_is_read_back_with_and_without_the_plugin(config, monkeypatch):
    saved = to_dict(config(callbacks=NAMES, callback__watch_gradients__every=7))
    assert saved["callback.watch_gradients"] == {"every": 7}
    assert "callback.count_only" not in saved  # it has no options
    assert from_dict(saved).callbacks["watch_gradients"].every == 7
    assert to_dict(from_dict(saved)) == saved
    entries = {name: entry for name, entry in CALLBACKS._entries.items() if name == "count_only"}
    monkeypatch.setattr(CALLBACKS, "_entries", entries)
    assert list(from_dict(saved).callbacks) == ["count_only"]


@pytest.mark.parametrize("name", ["train", "save"])
def test_names_of_the_trainers_events_are_reserved(name):
    with pytest.raises(ToolkitError, match=rf"differ from train, .*registered.py.* {name!r}\. Ren"):
        register_callback(name, NoOptions())(lambda c, context: None)
    assert name not in CALLBACKS


def test_callback_that_cannot_be_called_is_rejected(config):
    register_callback("not_callable", NoOptions())(lambda c, context: "text")
    with pytest.raises(ToolkitError, match="must be callable with the Step after each update, bu"):
        TrainingRun(config(callbacks=["not_callable"]), World())
