"""LTG-BERT and GPT-BERT against loops over their published equations, in float64.

The loops read folders of weights with the published names.
"""

from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from toolkit import ToolkitError, build_model, load_checkpoint
from toolkit.config.commands.checkpoints import ExportConfig, ImportConfig
from toolkit.conversion.convert import convert
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs
from toolkit.nn.attention.disentangled import clipped_buckets

D, HEADS, INNER, LAYERS, BUCKETS, LENGTH, EPS = 12, 3, 10, 2, 4, 24, 1e-3
TEXTS = ["the cat sat on a mat", "how dogs run far", "a cat and dogs"] * 9


def bucket(offset, buckets=BUCKETS, length=LENGTH):
    """The bucket of i - j, as published, in single precision."""
    middle, size = buckets // 2, torch.tensor(float(min(abs(offset), length - 1)))
    if abs(offset) <= middle:
        return offset
    steps = torch.log(size / middle) / math.log((length - 1) / middle) * (middle - 1)
    return (int(torch.ceil(steps)) + middle) * (1 if offset > 0 else -1)


def norm(x, saved=None, name=""):
    return F.layer_norm(
        x,
        x.shape[-1:],
        *((saved[f"{name}.{k}"] for k in ("weight", "bias")) if saved else ()),
        eps=EPS,
    )


def linear(saved, name, x):
    return F.linear(x, saved[f"{name}.weight"], saved.get(f"{name}.bias"))


def attend(saved, prefix, x, relative, causal, *, gated):
    """Attention of one sentence, by head, query and key."""
    width, x = D // HEADS, norm(x)
    query, key = linear(saved, f"{prefix}.in_proj_qk", x).chunk(2, -1)
    query_of_offset, key_of_offset = linear(saved, f"{prefix}.in_proj_qk", relative).chunk(2, -1)
    value = linear(saved, f"{prefix}.in_proj_vg" if gated else f"{prefix}.in_proj_v", x)
    value, gate = value.chunk(2, -1) if gated else (value, None)
    out = torch.zeros_like(x)
    for head in range(HEADS):
        part = slice(head * width, (head + 1) * width)
        for i in range(len(x)):
            keys, scores = range(i + 1 if causal else len(x)), []
            for j in keys:
                row = BUCKETS - 1 + bucket(i - j)
                products = (
                    query[i, part] @ key[j, part],
                    query[i, part] @ key_of_offset[row, part],
                )
                third = key[j, part] @ query_of_offset[row, part]
                scores.append((sum(products) + third) / math.sqrt(3 * width))
            weights = torch.stack(scores).softmax(0)
            out[i, part] = sum(w * value[j, part] for w, j in zip(weights, keys, strict=True))
    if gated:
        return linear(saved, f"{prefix}.out_proj", norm(out * F.gelu(gate)))
    return norm(linear(saved, f"{prefix}.out_proj", out), saved, f"{prefix}.post_layer_norm")


def feed(saved, prefix, x):
    y, gate = linear(saved, f"{prefix}.1", norm(x)).chunk(2, -1)
    return linear(saved, f"{prefix}.4", norm(y * F.gelu(gate, approximate="tanh")))


def predict(saved, tokens, *, gpt, causal=False):
    """The published logits at each position of one sentence."""
    p, h = ("model.", "lm_head.") if gpt else ("", "classifier.")
    relative = norm(
        saved[f"{p}embedding.relative_embedding"], saved, f"{p}embedding.relative_layer_norm"
    )
    x = norm(saved[f"{p}embedding.word_embedding.weight"][tokens])
    states = [x]

    def average(y):
        states.append(y)
        alphas = saved[f"model.dwa_modules.alphas.{len(states) - 2}"]
        return sum(a * it for a, it in zip(alphas, states, strict=True))

    for n in range(LAYERS):
        name = f"model.attention_layers.{n}" if gpt else f"transformer.layers.{n}.attention"
        x = x + attend(saved, name, x, relative, causal, gated=gpt)
        x = average(x) if gpt else x
        x = x + feed(
            saved, f"model.mlp_layers.{n}.mlp" if gpt else f"transformer.layers.{n}.mlp.mlp", x
        )
        x = average(x) if gpt else x
    hidden = norm(F.gelu(linear(saved, f"{h}nonlinearity.1", norm(x))))
    return F.linear(
        hidden, saved[f"{p}embedding.word_embedding.weight"], saved[f"{h}nonlinearity.5.bias"]
    )


@pytest.fixture
def published(tmp_path):
    """A folder as the authors publish one, with random weights."""

    def write(*, gpt):
        folder, draw = tmp_path / ("gpt" if gpt else "ltg"), torch.Generator().manual_seed(3)
        tokenizer = Tokenizer.train(TEXTS, kind="wordpiece", vocabulary_size=40, lowercase=True)
        learner = build_model("bert_tiny", tokenizer=tokenizer, task="mlm", layers=1)
        learner.save(tmp_path / "plain")
        convert(ExportConfig(paths=[str(tmp_path / "plain"), str(folder)]))
        (folder / "model.safetensors").unlink()
        rows, p, h = (
            len(tokenizer.vocabulary),
            "model." if gpt else "",
            "lm_head." if gpt else "classifier.",
        )
        shapes = {
            f"{p}embedding.word_embedding.weight": (rows, D),
            f"{p}embedding.relative_embedding": (2 * BUCKETS - 1, D),
            **{f"{p}embedding.relative_layer_norm.{k}": (D,) for k in ("weight", "bias")},
            **{f"{h}nonlinearity.1.weight": (D, D), f"{h}nonlinearity.1.bias": (D,)},
            f"{h}nonlinearity.5.bias": (rows,),
        }
        for n in range(LAYERS):
            layer = f"model.attention_layers.{n}" if gpt else f"transformer.layers.{n}.attention"
            maps = {
                "in_proj_qk": 2 * D,
                "out_proj": D,
                "in_proj_vg" if gpt else "in_proj_v": D * (1 + gpt),
            }
            for name, size in maps.items():
                shapes |= {f"{layer}.{name}.weight": (size, D), f"{layer}.{name}.bias": (size,)}
            if not gpt:
                shapes |= {f"{layer}.post_layer_norm.{k}": (D,) for k in ("weight", "bias")}
            mlp = f"model.mlp_layers.{n}.mlp" if gpt else f"transformer.layers.{n}.mlp.mlp"
            shapes |= {f"{mlp}.1.weight": (2 * INNER, D), f"{mlp}.4.weight": (D, INNER)}
        if gpt:
            shapes |= {f"model.dwa_modules.alphas.{i}": (i + 2,) for i in range(2 * LAYERS)}
        saved = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
        copy = saved[f"{p}embedding.word_embedding.weight"].clone()
        config = {
            **{"hidden_size": D, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS},
            **{"intermediate_size": INNER, "position_bucket_size": BUCKETS, "vocab_size": rows},
            **{"max_position_embeddings": LENGTH, "layer_norm_eps": EPS},
            "architectures": ["GPTBERTForMaskedLM" if gpt else "LtgbertForMaskedLM"],
            "auto_map": {"AutoModelForMaskedLM": "modeling.Other"},
        }
        (folder / "config.json").write_text(json.dumps(config))
        indices = torch.zeros(LENGTH, LENGTH, dtype=torch.long)
        layer = f"{p}attention_layers.0" if gpt else "transformer.layers.0.attention"
        more = {f"{h}nonlinearity.5.weight": copy, f"{layer}.position_indices": indices}
        save_file({**saved, **more}, folder / "model.safetensors", {"format": "pt"})
        return folder, {name: tensor.double() for name, tensor in saved.items()}

    return write


@torch.no_grad()
@pytest.mark.parametrize("gpt", [False, True])
def test_published_folders_equal_the_equations_and_come_back(published, tmp_path, gpt):
    folder, saved = published(gpt=gpt)
    convert(ImportConfig(paths=[str(folder), str(tmp_path / "here")]))
    learner = load_checkpoint(tmp_path / "here").double()
    assert learner.origin.task.name == ("hybrid" if gpt else "mlm")
    tokens = torch.randint(5, 30, (2, 9), generator=torch.Generator().manual_seed(1))
    for causal in (False, True):
        states = learner.encoder(Inputs(tokens, causal=causal)).states.flatten(0, 1)
        logits = learner.task.head(states, learner.encoder.token_embedding.weight)
        expected = torch.cat([predict(saved, row, gpt=gpt, causal=causal) for row in tokens])
        torch.testing.assert_close(logits, expected, rtol=1e-9, atol=1e-9)
    chosen = torch.tensor([1, 8, 9, 17])
    of_chosen = learner.encoder(Inputs(tokens, causal=True), chosen).states[0]
    torch.testing.assert_close(of_chosen, states[chosen])
    torch.testing.assert_close(
        learner.encoder.layer_states(Inputs(tokens, causal=True))[-1].flatten(0, 1), states
    )
    convert(ExportConfig(paths=[str(tmp_path / "here"), str(tmp_path / "there")], classes="native"))
    again = load_file(tmp_path / "there" / "model.safetensors")
    assert {name: tuple(it.shape) for name, it in again.items() if "5.weight" not in name} == {
        name: tuple(it.shape) for name, it in saved.items()
    }
    assert all(torch.equal(again[name].double(), tensor) for name, tensor in saved.items())
    config = json.loads((tmp_path / "there" / "config.json").read_text())
    assert config["model_type"] == ("gpt_bert" if gpt else "ltgbert")
    assert config["auto_map"]["AutoModelForMaskedLM"].endswith(
        "BERTForMaskedLM" if gpt else "bertForMaskedLM"
    )


def test_buckets_of_published_lengths_equal_those_of_single_precision():
    offsets = torch.arange(-511, 512)
    assert clipped_buckets(offsets, 32, 512).tolist() == [
        bucket(o, 32, 512) for o in range(-511, 512)
    ]


@torch.no_grad()
def test_weights_begin_as_published():
    learner = build_model("gpt_bert_tiny", vocabulary_size=900, task="hybrid")
    encoder, std = learner.encoder, math.sqrt(2 / (5 * 128))
    assert encoder.token_embedding.weight.abs().max() <= 2 * std
    assert encoder.token_embedding.weight.std() == pytest.approx(0.88 * std, rel=0.02)
    for number, layer in enumerate(encoder.layers, 1):
        for weight in (layer.feed_forward.wide.weight, layer.feed_forward.back[1].weight):
            assert weight.std() == pytest.approx(0.88 * std / math.sqrt(2 * number), rel=0.03)
        assert not layer.attention.gate.bias.any()
    assert torch.equal(encoder.layers.layer_weights, torch.eye(5)[1:])


def test_other_options_are_not_exported_as_published(tmp_path):
    tokenizer = Tokenizer.train(TEXTS, kind="wordpiece", vocabulary_size=40, lowercase=True)
    options = {"task": "hybrid", "layer_average": False}
    learner = build_model("gpt_bert_tiny", tokenizer=tokenizer, **options)
    learner.save(tmp_path / "here")
    with pytest.raises(ToolkitError, match=r"has arch\.layer_average False\. Nothing was written"):
        convert(
            ExportConfig(paths=[str(tmp_path / "here"), str(tmp_path / "out")], classes="native")
        )
