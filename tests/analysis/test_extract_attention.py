import torch

from toolkit import build_model
from toolkit.analysis.extract_attention import attention_maps
from toolkit.models.interface import Inputs

SHAPE = {"layers": 2, "width": 16, "heads": 2, "embedding_width": 8}


def test_attention_maps_reproduce_the_states_of_the_encoder():
    torch.manual_seed(0)
    model = build_model("composite_bert_tiny", vocabulary_size=20, **SHAPE).train()
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    inputs = Inputs(tokens=torch.randint(20, (2, 5)), padding=padding)
    seen, project = [], model.layers[1].attention.project
    project.register_forward_hook(lambda module, given, p: seen.append(p))
    first, second = attention_maps(model, inputs)
    assert first.shape == second.shape == (2, 2, 5, 5)
    torch.testing.assert_close(second.sum(-1), torch.ones(2, 2, 5))
    assert not second[1, :, :, 3:].any()  # padding is attended to by nobody
    model.eval()
    average = model.layers[1].attention.map.average(seen[0])
    torch.testing.assert_close(second @ seen[0].v, average)


def test_attention_maps_leave_the_model_unchanged():
    model = build_model("bert_tiny", vocabulary_size=20, **SHAPE).train()
    assert len(attention_maps(model, Inputs(tokens=torch.zeros(1, 3, dtype=torch.long)))) == 2
    assert model.training and not any(m._forward_hooks for m in model.modules())


def test_attention_maps_include_those_of_two_streams():
    torch.manual_seed(0)
    model = build_model("taco_tiny", vocabulary_size=20)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    maps = attention_maps(model, Inputs(torch.randint(20, (2, 5)), padding=padding))
    assert [tuple(m.shape) for m in maps] == [(2, 3, 5, 5)] * 2
    torch.testing.assert_close(maps[1].sum(-1), torch.ones(2, 3, 5))
    assert not maps[1][1, :, :, 3:].any()
