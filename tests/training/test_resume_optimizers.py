"""Every optimizer resumes from a checkpoint bit for bit."""

from dataclasses import replace

import pytest
import torch

from toolkit.checkpoints import tensor_files
from toolkit.checkpoints.tensor_files import read_tensors, write_tensors
from toolkit.common.registry import OPTIMIZERS
from toolkit.optim.update import clip_and_step
from toolkit.tasks.build import build_model

OPTIMIZER_VARIANTS = [
    *((name, {}) for name in sorted(OPTIMIZERS.builtins)),
    ("adamw", {"bias_correction": False, "layerwise_lr_decay": 0.8}),
    ("muon", {"normuon_beta2": 0.9, "newton_schulz": "polar_express", "cautious_decay": True}),
    ("sgd", {"momentum": 0.9, "nesterov": True}),
    ("rmsprop", {"momentum": 0.9, "centered": True}),
    ("adafactor", {"beta1": 0.9}),
]


def fresh(name, options):
    torch.manual_seed(0)
    size = {"layers": 1, "width": 16, "heads": 2, "embedding_width": 8}
    learner = build_model("composite_bert_tiny", vocabulary_size=11, task="mlm", **size)
    config = replace(OPTIMIZERS[name].config, lr=0.01, **options)
    return learner, OPTIMIZERS[name].factory(config, list(learner.named_parameters()))


def train(learner, optimizer, updates):
    parameters = list(learner.parameters())
    for number in updates:
        random = torch.Generator().manual_seed(number)
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=random)
        clip_and_step(optimizer, parameters, clip_norm=1.0)


@pytest.mark.parametrize(("name", "options"), OPTIMIZER_VARIANTS)
def test_optimizer_resumes_bit_for_bit(name, options, tmp_path):
    whole, optimizer = fresh(name, options)
    train(whole, optimizer, range(3))
    write_tensors(tmp_path / "model", whole.state_dict())
    write_tensors(tmp_path / "optimizer", tensor_files.collect_state(optimizer, whole))
    train(whole, optimizer, range(3, 6))
    again, other = fresh(name, options)
    again.load_state_dict(read_tensors(tmp_path / "model"))
    tensor_files.restore(other, again, read_tensors(tmp_path / "optimizer"))
    train(again, other, range(3, 6))
    for one, two in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two)
    ends = [tensor_files.collect_state(o, m) for o, m in ((optimizer, whole), (other, again))]
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0].keys() | ends[1].keys())
