"""The heads of the tasks squad and multiple_choice are those of Transformers' models."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from toolkit.checkpoints.load import read_config
from toolkit.common.registry import TASKS
from toolkit.config.run import ComponentConfig
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs
from toolkit.tasks.build import build_learner
from toolkit.tasks.multiple_choice.examples import MultipleChoiceBatch
from toolkit.tasks.squad.examples import SquadBatch
from toolkit.training.resume import load_finetune_weights

from .conftest import PIECES, SHAPE

NOTHING = {"weights": {}, "sentences": 0, "tokens": 0}


@pytest.fixture
def tuned(saved, converted):
    """A model of Transformers, and a learner fine-tuned from it."""

    def make(name, task):
        model, folder = saved(name)
        checkpoint = converted(folder)
        run, sizes = read_config(checkpoint)
        learner = build_learner(run.arch, ComponentConfig(task, TASKS[task].config), sizes).eval()
        load_finetune_weights(
            str(checkpoint), learner, Tokenizer.load(checkpoint), lambda text: None
        )
        return model, learner

    return make


def batch(rows):
    """Random texts of different lengths, as inputs of the toolkit and of Transformers."""
    draw, width = np.random.default_rng(1), SHAPE["max_position_embeddings"]
    tokens = torch.from_numpy(draw.integers(5, len(PIECES), (rows, width)))
    lengths = torch.from_numpy(draw.integers(6, width + 1, rows))[:, None]
    padding = torch.arange(width) >= lengths
    segments = (torch.arange(width) >= 4).long().expand(rows, width) * ~padding
    hf_inputs = {
        "input_ids": tokens,
        "token_type_ids": segments,
        "attention_mask": (~padding).long(),
    }
    return Inputs(tokens, None, segments, padding), hf_inputs


def test_imported_squad_head_equals_transformers(tuned):
    model, learner = tuned("BertForQuestionAnswering", "squad")
    learner.task.head.load_state_dict(model.qa_outputs.state_dict())
    inputs, hf_inputs = batch(3)
    zeros = torch.zeros(3, dtype=torch.long)
    given = SquadBatch(inputs, zeros, zeros, ~inputs.padding, zeros, zeros, **NOTHING)
    with torch.no_grad():
        found, want = learner(given), model(**hf_inputs)
    for name, wanted in (("begin", want.start_logits), ("end", want.end_logits)):
        got, kept = found[name].logits, ~inputs.padding
        torch.testing.assert_close(got[kept], wanted[kept], atol=1e-5, rtol=1e-5)


def test_imported_multiple_choice_head_equals_transformers(tuned):
    model, learner = tuned("BertForMultipleChoice", "multiple_choice")
    learner.task.head.output.load_state_dict(model.classifier.state_dict())
    inputs, hf_inputs = batch(6)
    width, zeros = inputs.tokens.shape[1], torch.zeros(2, dtype=torch.long)
    rows = torch.arange(6).view(2, 3)
    given = MultipleChoiceBatch(inputs, torch.arange(6) * width, rows, zeros, zeros, **NOTHING)
    with torch.no_grad():
        [found] = learner(given).values()
        want = model(**{name: part.view(2, 3, width) for name, part in hf_inputs.items()}).logits
    torch.testing.assert_close(found.logits, want, atol=1e-5, rtol=1e-5)
