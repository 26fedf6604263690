"""Small models of Transformers with random weights, saved by save_pretrained."""

from __future__ import annotations

import pytest

transformers = pytest.importorskip("transformers")

import torch  # noqa: E402

from toolkit.config.commands.checkpoints import ExportConfig, ImportConfig, OnnxConfig  # noqa: E402
from toolkit.conversion.convert import convert  # noqa: E402

FORMATS = {"toolkit": ImportConfig, "hf": ExportConfig, "onnx": OnnxConfig}
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "##s"]
PIECES += [".", "a", "dog", "##ed", "r", "##u", "##n", ",", "über", "u"]
SHAPE = {
    "vocab_size": len(PIECES),
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 16,
    "pad_token_id": 0,
    "initializer_range": 0.5,
}


SETTINGS = {
    "DebertaV2": {
        **{"relative_attention": True, "position_biased_input": False, "pos_att_type": "p2c|c2p"},
        **{"share_att_key": True, "norm_rel_ebd": "layer_norm", "position_buckets": 4},
    }
}
"""Settings of published models that are not the defaults of Transformers."""


def small(name, **settings):
    """A model of Transformers by class name, with all tensors random."""
    prefix = name.partition("For")[0].removesuffix("Model")
    shape = {**SHAPE, **SETTINGS.get(prefix, {})}
    config = getattr(transformers, f"{prefix}Config")(**{**shape, **settings})
    torch.manual_seed(7)
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for tensor in {id(p): p for p in model.parameters()}.values():
            tensor.normal_(0, 0.3)
    return model


@torch.no_grad()
def run_alone(model, hf_inputs, name):
    """An output of a model of Transformers for each row without its padding, padded again.

    In a padded batch, the convolutions of Transformers' ConvBERT see padding.
    """
    rows = []
    for row, length in enumerate(hf_inputs["attention_mask"].sum(1).tolist()):
        alone = {key: tensor[row : row + 1, :length] for key, tensor in hf_inputs.items()}
        if "MultipleChoice" in type(model).__name__:
            alone = {key: tensor[None] for key, tensor in alone.items()}
        rows.append(model(**alone)[name][0])
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


@pytest.fixture
def saved(tmp_path):
    """Saves a small model with its tokenizer; gives the model and its folder."""

    def save(name, *, folder="hf", **settings):
        model = small(name, **settings)
        model.save_pretrained(tmp_path / folder)
        write_vocabulary(tmp_path / folder)
        return model, tmp_path / folder

    return save


def write_vocabulary(folder, pieces=PIECES):
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), "utf-8")


@pytest.fixture
def converted(tmp_path):
    """Converts to a new folder of tmp_path; gives its path."""

    def call(source, to="toolkit", name=None, **options):
        target = tmp_path / (name or f"{source.name}-{to}")
        return convert(FORMATS[to](paths=[str(source), str(target)], **options))

    return call
