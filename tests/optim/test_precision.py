import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.optim.update import (
    LossScale,
    Precision,
    resolve_precision,
)

CPU = torch.device("cpu")


def test_auto_precision_is_bf16_on_hardware_that_multiplies_it(monkeypatch):
    for fast, expected in ((True, "bf16"), (False, "fp32")):
        monkeypatch.setattr("toolkit.optim.update.bf16_is_fast", lambda device, f=fast: f)
        assert resolve_precision("auto", CPU) == expected


@pytest.mark.parametrize("kind", ["cpu", "mps", "xpu"])
def test_tf32_is_rejected_without_an_nvidia_gpu(kind):
    with pytest.raises(ToolkitError, match=f"fp32 on {kind}, but is tf32"):
        resolve_precision("tf32", torch.device(kind))
    assert resolve_precision("tf32", torch.device("cuda")) == "tf32"


def test_autocast_computes_products_in_the_requested_format():
    layer, x = torch.nn.Linear(3, 3), torch.ones(1, 3)
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with Precision(name, CPU).autocast():
            assert layer(x).dtype == dtype


class SharedMaps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.frozen, self.unused = (torch.nn.Linear(8, 8) for _ in range(3))
        self.shared, self.tied = self.first, torch.nn.Linear(8, 8)
        self.tied.weight = self.first.weight
        self.frozen.requires_grad_(False)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            x = torch.nn.LayerNorm(8)(x)
        return self.tied(self.shared(self.frozen(self.first(x)).tanh())).float().square().sum()


def test_weights_converted_together_give_the_gradients_of_autocast():
    x, found = torch.randn(5, 8), []
    for together in (False, True):
        module, precision = SharedMaps(), Precision("bf16", CPU, casts_together=together)
        with precision.autocast():
            loss = precision.call(module, x)
        loss.backward()
        found.append([loss.detach(), *(p.grad for p in module.parameters())])
    for expected, value in zip(*found, strict=True):
        assert (expected is None) == (value is None)
        assert expected is None or (torch.equal(expected, value) and value.dtype == torch.float32)


def test_loss_scale_halves_on_a_skip_and_doubles_after_an_interval():
    scale = LossScale(CPU, start=8.0, interval=3)
    states = []
    for skipped in (0, 0, 1, 0, 0, 0, 0):
        scale.update(torch.tensor(float(skipped)))
        states.append((float(scale.scale), float(scale.good)))
    assert states == [(8, 1), (8, 2), (4, 0), (4, 1), (4, 2), (8, 0), (8, 1)]


def test_loss_scale_state_is_restored():
    scale, again = LossScale(CPU, interval=3), LossScale(CPU, interval=3)
    scale.update(torch.tensor(1.0))
    scale.update(torch.tensor(0.0))
    again.restore(scale.state())
    assert again.state() == scale.state() == {"scale": 2.0**14, "good": 1.0}


def test_fp16_is_rejected_on_a_cpu():
    with pytest.raises(ToolkitError, match="must be auto, bf16 or fp32 on a CPU, but is fp16"):
        resolve_precision("fp16", CPU)
