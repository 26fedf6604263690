import importlib

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.models.interface import Inputs
from toolkit.nn.ops import dispatch
from toolkit.tasks.build import build_model

SMALL = {"layers": 2, "width": 32, "heads": 2, "dropout": 0.0, "attention_dropout": 0.0}
ENCODERS = {
    "bert": {"positions": ["rope", "t5"], "norm": "rms"},
    "composite_bert": {"depthwise": True},
    "convbert_small": {"embedding_width": 32},
    "deberta": {},
    "taco_tiny": {"dropout": 0.0, "attention_dropout": 0.0},
    "modernbert": {"attention_window": 8, "norm": "layer", "feed_forward_width": 48},
}


class Multiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 3 * x


@pytest.fixture(params=["private", "public"])
def apply_eagerly(request, monkeypatch):
    """The function with torch's private decorator, and as in a version of torch without it."""
    with monkeypatch.context() as patch:
        if request.param == "public":
            patch.delattr("torch._compile._disable_dynamo")
        yield importlib.reload(dispatch).apply_eagerly
    importlib.reload(dispatch)


@pytest.mark.slow
def test_functions_applied_eagerly_are_not_part_of_compiled_graphs(apply_eagerly):
    graphs = []

    def backend(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward

    def function(x):
        return apply_eagerly(Multiply, x + 1) + 2

    torch._dynamo.reset()
    x = torch.ones(2)
    assert torch.equal(torch.compile(function, backend=backend)(x), 3 * (x + 1) + 2)
    assert len(graphs) == 2 and not any("mul" in name for names in graphs for name in names)
    assert torch.equal(apply_eagerly(Multiply, x), 3 * x)


@pytest.mark.parametrize("arch", ENCODERS)
def test_plain_forms_give_the_same_states_and_gradients(arch):
    options = ENCODERS[arch] if arch.startswith("taco") else {**SMALL, **ENCODERS[arch]}
    torch.manual_seed(0)
    encoder = build_model(arch, vocabulary_size=50, task="mlm", **options).encoder.double()
    length = 400 if arch == "modernbert" else 20
    positions = torch.arange(length).repeat(2, 1)
    positions[1, 3:6] = positions[1, 3:6].flip(0)
    inputs = Inputs(torch.randint(5, 45, (2, length)), positions=positions)
    if arch in {"modernbert", "convbert_small"}:
        inputs = inputs._replace(positions=None)

    def run():
        encoder.zero_grad()
        states = encoder(inputs).states
        states.square().sum().backward()
        return [states.detach(), *(p.grad.clone() for p in encoder.parameters() if p.requires_grad)]

    expected = run()
    with dispatch.switched_off(*dispatch.PATHS):
        torch.testing.assert_close(run(), expected)


@pytest.mark.parametrize(
    ("names", "off"), [("1", (0, 0, 0)), ("", (1, 1, 1)), ("offset_products,dropout", (0, 0, 1))]
)
def test_the_environment_names_paths_that_are_switched_off(names, off, monkeypatch):
    monkeypatch.setenv("TOOLKIT_PLAIN", names)
    reloaded = importlib.reload(dispatch)
    assert tuple(map(reloaded.fast, ("offset_products", "dropout", "attention"))) == off
    monkeypatch.delenv("TOOLKIT_PLAIN")
    importlib.reload(dispatch)


@pytest.mark.parametrize(("value", "runs"), [("", False), ("0", False), ("1", True)])
def test_paths_that_no_gpu_has_measured_are_off_unless_asked_for(value, runs, monkeypatch):
    monkeypatch.setenv("TOOLKIT_UNMEASURED", value)
    reloaded = importlib.reload(dispatch)
    assert reloaded.fast("bias_sums") is runs
    monkeypatch.delenv("TOOLKIT_UNMEASURED")
    importlib.reload(dispatch)


def test_an_unknown_path_is_rejected_with_the_known_ones():
    with pytest.raises(ToolkitError, match=r"names taps, which is no fast path.* dropout"):
        dispatch.read_names("taps")
