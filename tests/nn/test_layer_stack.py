import pytest
import torch

from toolkit import build_model
from toolkit.models.interface import Inputs
from toolkit.nn.layer_stack import LayerStack


def gradients(arch, checkpointed, precision):
    """Gradients of an encoder in training, with padding and selected tokens, after two passes."""
    torch.manual_seed(1)
    encoder = build_model(arch, vocabulary_size=50, width=32, heads=2)
    encoder.layers.checkpoint_activations = checkpointed
    tokens = torch.randint(50, (3, 9))
    padding = torch.zeros(3, 9, dtype=torch.bool)
    padding[1, 6:] = True
    torch.manual_seed(2)
    for _ in range(2):
        with torch.autocast("cpu", precision, enabled=precision != torch.float32):
            states = encoder(Inputs(tokens, padding=padding), torch.tensor([0, 4, 10])).states
        states.float().square().sum().backward()
    return {name: p.grad for name, p in encoder.named_parameters()}


@pytest.mark.parametrize("arch", ["composite_bert_tiny", "bert_tiny"])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_checkpointed_layers_have_equal_gradients_with_dropout(arch, precision):
    plain, recomputed = gradients(arch, False, precision), gradients(arch, True, precision)
    assert all(torch.equal(plain[name], recomputed[name]) for name in plain)


def test_checkpointed_layer_runs_twice_in_training_and_once_in_inference():
    class CountingLinear(torch.nn.Linear):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return super().forward(x).tanh()

    layers = LayerStack([CountingLinear(2, 2)])
    layers.checkpoint_activations = True
    layers.call_layer(layers[0], torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert layers[0].calls == 2
    with torch.no_grad():
        layers.call_layer(layers[0], torch.ones(1, 2))
    assert layers[0].calls == 3


def test_layer_stack_has_the_parameter_names_of_a_list():
    layers = LayerStack([torch.nn.Linear(2, 2)])
    assert list(layers.state_dict()) == ["0.weight", "0.bias"]
