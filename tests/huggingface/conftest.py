"""Small learners of every task with random weights, and their batches."""

import pytest

pytest.importorskip("transformers")

import torch

from tests.tasks.conftest import (
    KINDS,
    folders as folders,
    glue as glue,
    questions as questions,
    tagged as tagged,
)
from toolkit import build_model
from toolkit.cli.convert import main
from toolkit.tasks.examples import SplitSource

ENCODER = {"layers": 2, "width": 32, "heads": 2, "max_positions": 64, "dropout": 0.1}
OPTIONS = {
    "bert_tiny": ENCODER,
    "composite_bert_tiny": ENCODER,
    "convbert_tiny": {**ENCODER, "kernel_size": 3},
    "taco_tiny": {"layers": 2, "word_width": 24, "position_width": 8, "relative_width": 16},
    "conv_san_ud": {"heads": 2, "word_width": 16, "layers": 1, "fixed_length": 12},
    "transformer_tiny": {"encoder_layers": 1, "decoder_layers": 1, "width": 32},
    "transformer_lm_tiny": {"width": 32},
    "lightconv": {
        **{"width": 32, "heads": 2, "feed_forward_width": 32},
        **{"encoder_kernels": [3], "decoder_kernels": [3]},
    },
}


@pytest.fixture
def make_learner(folders):
    """A learner with random weights for a kind of data, and one batch of it."""

    def make(kind, arch, **options):
        folder, task = folders(kind), KINDS.get(kind, kind)
        torch.manual_seed(1)
        given = {**OPTIONS.get(arch, {}), **options}
        learner = build_model(arch, tokenizer=folder.tokenizer, task=task, **given).eval()
        with torch.no_grad():
            for parameter in learner.parameters():
                parameter.normal_(0, 0.2)
        return learner, make_batch(learner, folder)

    return make


def make_batch(learner, folder):
    task = type(learner.task)
    config = task.resolve_for(learner.origin.task.config, learner.encoder)
    split = "valid" if "valid" in folder.splits else "train"
    examples = task.examples(config, SplitSource(folder, split))
    return examples.make_batch(torch.arange(min(4, len(examples))).numpy(), None)


@pytest.fixture
def hf_inputs():
    """The inputs of a batch as Transformers names them."""

    def rename(inputs):
        found = {"input_ids": inputs.tokens}
        if inputs.padding is not None:
            found["attention_mask"] = (~inputs.padding).long()
        if inputs.segments is not None:
            found["token_type_ids"] = inputs.segments
        if inputs.positions is not None:
            found["position_ids"] = inputs.positions
        if inputs.char_ids is not None:
            found["char_ids"] = inputs.char_ids[inputs.word_index]
        return found

    return rename


@pytest.fixture
def export(tmp_path):
    """Saves and exports a learner; gives the folders of the checkpoint and the export."""

    def make(learner, *words):
        learner.save(tmp_path / "run")
        paths = [str(tmp_path / "run"), str(tmp_path / "exported")]
        assert main(["export", *paths, *words]) == 0
        return tmp_path / "run", tmp_path / "exported"

    return make
