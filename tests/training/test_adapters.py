"""LoRA and bottleneck adapters: equations, small checkpoints, resuming, merging."""

from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F
from transformers import AutoModelForMaskedLM

from toolkit import build_model, load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.config.sections import TrainingConfig
from toolkit.conversion.convert import export_own
from toolkit.conversion.native_classes import export_native
from toolkit.models.interface import Inputs
from toolkit.nn.adapters import TARGETS, AdaptedLinear, add_bottlenecks, merge_low_rank
from toolkit.training.run import run

TOKENS = torch.arange(5, 19).view(2, 7)
LORA = {"lora_rank": 2, "lora_targets": ["query", "value", "feed_forward"], "lr": 0.01}


def adapted(arch="bert_tiny", **options):
    torch.manual_seed(0)
    shape = {"layers": 2, "width": 16, "heads": 2, "embedding_width": 16}
    learner = build_model(arch, vocabulary_size=40, task="mlm", **shape).double().eval()
    before = learner.encoder(TOKENS).states
    learner.adapt(TrainingConfig(max_update=1, **options))
    learner.double().eval()
    assert torch.equal(learner.encoder(TOKENS).states, before), "adapters start as the identity"
    with torch.no_grad():
        for name, p in learner.named_parameters():
            if p.requires_grad:
                p.copy_(torch.randn_like(p) / 3)
            assert p.requires_grad == (
                not name.startswith("encoder.") or "up" in name or "down" in name
            )
    return learner


def test_adapted_maps_equal_loops():
    learner = adapted(lora_rank=2, lora_alpha=6.0, lora_targets=["value", "output"], bottleneck=3)
    attention = learner.encoder.layers[1].attention
    x = torch.randn(5, 16, dtype=torch.float64)
    raw, (change,) = attention.project.qkv._parameters["weight"], attention.project.qkv.low_rank
    for row in range(48):
        want = raw[row].clone()
        if row >= 32:
            want += sum(3.0 * change.up[row - 32, n] * change.down[n] for n in range(2))
        torch.testing.assert_close(attention.project.qkv.weight[row], want)
    output, small = attention.output, attention.output.bottleneck
    (change,), raw = output.low_rank, output._parameters["weight"]
    y = x @ (raw + 3.0 * change.up @ change.down).T + output.bias
    inner = F.gelu(y @ small.down.weight.T + small.down.bias)
    torch.testing.assert_close(output(x), y + inner @ small.up.weight.T + small.up.bias)


ENDS = {
    "bert_tiny": "attention.output, feed_forward.back",
    "ltg_bert_tiny": "attention.output.0, feed_forward.back.1",
    "gpt_bert_tiny": "attention.output.1, feed_forward.back.1",
    "taco_tiny": "words.output, words.feed_forward.back, "
    "positions.output, positions.feed_forward.back",
    "transformer_tiny": "self_attention.output, feed_forward.back, "
    "self_attention.output, cross_attention.output, feed_forward.back",
}


@pytest.mark.parametrize("arch", ENDS)
def test_bottlenecks_follow_the_last_map_of_every_sublayer(arch):
    task = "translation" if arch == "transformer_tiny" else "mlm"
    encoder = build_model(arch, vocabulary_size=40, task=task).encoder
    add_bottlenecks(encoder, 3)
    names = [name for name, it in encoder.named_modules() if isinstance(it, AdaptedLinear)]
    found = [name.partition("layers.1.")[2] for name in names if "layers.1." in name]
    assert ", ".join(found) == ENDS[arch]


def test_bottlenecks_after_grouped_maps_are_refused():
    encoder = build_model("convbert_medium_small", vocabulary_size=40, task="mlm").encoder
    with pytest.raises(ToolkitError, match="end in linear maps without groups"):
        add_bottlenecks(encoder, 3)


@pytest.mark.parametrize(
    "arch", ["bert_tiny", "deberta_tiny", "convbert_tiny", "ltg_bert_tiny", "gpt_bert_tiny"]
)
def test_merged_models_have_plain_maps_and_the_same_outputs(arch):
    learner = adapted(arch, lora_rank=2, lora_targets=[*TARGETS])
    before = learner.encoder(TOKENS).states
    merge_low_rank(learner)
    assert not any(isinstance(it, AdaptedLinear) for it in learner.modules())
    assert not any("low_rank" in name for name in learner.state_dict())
    torch.testing.assert_close(learner.encoder(TOKENS).states, before, atol=1e-12, rtol=0)


def test_adapters_require_a_model_and_known_maps(config):
    with pytest.raises(ToolkitError, match="--finetune-from names"):
        run(config(lora_rank=2))
    learner = build_model("taco_tiny", vocabulary_size=40, task="mlm", max_positions=16)
    options = TrainingConfig(max_update=1, lora_rank=2, lora_targets=["output", "feed_forward"])
    learner.adapt(options)
    with pytest.raises(ToolkitError, match="must be one of query, key"):
        TrainingConfig(max_update=1, lora_targets=["values"])


@pytest.fixture
def base(config, tmp_path, request):
    """Options of a run from the weights of a finished one."""
    arch = getattr(request, "param", "bert_tiny")
    run(config(save_dir=str(tmp_path / "base"), arch=arch))
    return {"arch": arch, "finetune_from": str(tmp_path / "base"), "ema_decay": 0.5}


@pytest.fixture
def trained_adapters(base, config, tmp_path):
    """A function that trains adapters of that run; gives the folder."""

    def train(name="adapters", **options):
        run(config(save_dir=str(tmp_path / name), **{**LORA, **base, **options}))
        return tmp_path / name

    return train


@pytest.mark.slow
def test_checkpoints_hold_the_changes_and_give_the_trained_model(trained_adapters, tmp_path):
    folder = trained_adapters() / "checkpoint_last"
    small = load_file(folder / "average.safetensors")
    assert all("low_rank" in name or name.startswith("task.") for name in small)
    assert small.keys() == load_file(folder / "model.safetensors").keys()
    base = load_file(tmp_path / "base" / "checkpoint_best" / "model.safetensors")
    learner, inputs = load_checkpoint(folder), Inputs(TOKENS % 30)
    for name, tensor in learner.state_dict().items():
        if name.startswith("encoder."):
            changed = any(name.endswith(it) for it in ("qkv.weight", "wide.weight", "back.weight"))
            assert torch.equal(tensor, base[name]) != changed, name
    with torch.no_grad():
        states = learner.encoder(inputs).states
        logits = learner.task.head(states.flatten(0, 1), learner.encoder.token_embedding.weight)
        learner.save(tmp_path / "merged")
        again = load_checkpoint(tmp_path / "merged").encoder(inputs).states
        torch.testing.assert_close(again, states, atol=1e-5, rtol=0)
        for export in (export_native, export_own):
            export(folder, tmp_path / export.__name__)
            model = AutoModelForMaskedLM.from_pretrained(tmp_path / export.__name__).eval()
            found = model(inputs.tokens).logits.flatten(0, 1)
            torch.testing.assert_close(found, logits, atol=1e-5, rtol=0)
    next_run = trained_adapters("next", finetune_from=str(tmp_path / "adapters"), lora_rank=0)
    assert (next_run / "checkpoint_last" / "model.safetensors").exists()
    with pytest.raises(ToolkitError, match=r"holds adapters\. Merge them first"):
        trained_adapters("again", finetune_from=str(tmp_path / "adapters"))
    shutil.rmtree(tmp_path / "base")
    with pytest.raises(ToolkitError, match="holds adapters only, and the checkpoint that they"):
        load_checkpoint(folder)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["bert_tiny", "ltg_bert_tiny", "gpt_bert_tiny"], indirect=True)
@pytest.mark.parametrize("options", [{}, {"lora_rank": 0, "bottleneck": 4}])
def test_runs_with_adapters_resume_bit_for_bit(base, resumes_exactly, options):
    resumes_exactly(4, {**LORA, **base, **options})


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"lora_rank": 0, "bottleneck": 4}])
def test_adapters_of_two_ranks_equal_those_of_one_process(
    base, same_on_two_ranks, tmp_path, options
):
    same_on_two_ranks({**LORA, **base, "ema_decay": 0.0, **options})
    expected, *others = (
        load_file(tmp_path / name / "checkpoint_last" / "model.safetensors")
        for name in ("alone", "none", "full")
    )
    start = load_file(tmp_path / "alone" / "checkpoint_e1_u5" / "model.safetensors")
    assert any((start[name] - tensor).abs().max() > 1e-3 for name, tensor in expected.items())
    for found in others:
        assert found.keys() == expected.keys()
        for name, tensor in expected.items():
            torch.testing.assert_close(found[name], tensor, atol=1e-5, rtol=1e-4)
