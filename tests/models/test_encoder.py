"""What holds for every variant of the encoder as a whole."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.encoder import Encoder
from toolkit.models.interface import Inputs, Sizes
from toolkit.nn.attention import Offsets, SequenceContext

SHAPE = {"layers": 2, "width": 16, "heads": 2, "embedding_width": 8, "max_positions": 12}
VARIANTS = {
    "none": {"fixed": False, "dynamic": False},
    "absolute": {"fixed": False, "dynamic": False, "absolute_positions": True},
    "composite": {"radius": 2},
    "composite + key": {"radius": 2, "key_dynamic": True},
    "convolutions": {"radius": 2, "depthwise": True, "convolve": ["query", "key", "value"]},
}
every_variant = pytest.mark.parametrize("name", VARIANTS)


def encoder(name: str, dtype: torch.dtype = torch.float64) -> Encoder:
    torch.manual_seed(0)
    entry = ARCHITECTURES["composite_bert_tiny"]
    config = dataclasses.replace(entry.config, **SHAPE, **VARIANTS[name])
    built = entry.factory(config, Sizes(tokens=30)).to(dtype).eval()
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return built


def states(model: Encoder, tokens: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
    return model(Inputs(tokens=tokens, **others)).states


def close(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got, want, atol=1e-11, rtol=1e-9)


@every_variant
def test_padding_does_not_change_the_states_of_the_words(name):
    model, tokens = encoder(name), torch.randint(30, (1, 7))
    padded = torch.cat([tokens, torch.randint(30, (1, 5))], dim=1)
    padding = torch.arange(12)[None] >= 7
    close(states(model, padded, padding=padding)[:, :7], states(model, tokens))


@every_variant
def test_a_sentence_does_not_see_its_batch(name):
    model, tokens = encoder(name), torch.randint(30, (4, 9))
    order = torch.tensor([2, 0, 3, 1])
    close(states(model, tokens)[order], states(model, tokens[order]))
    close(states(model, tokens)[2:3], states(model, tokens[2:3]))


@every_variant
def test_plain_positions_spelled_out_change_nothing(name):
    model, tokens = encoder(name), torch.randint(30, (3, 9))
    positions = torch.arange(9).expand(3, 9)
    close(states(model, tokens, positions=positions), states(model, tokens))


def test_states_of_chosen_places_are_those_among_the_states_of_all():
    model, tokens = encoder("composite"), torch.randint(30, (3, 9))
    chosen = torch.tensor([20, 3, 3, 0])
    want = states(model, tokens).flatten(0, 1)[chosen]
    close(model.select_states(Inputs(tokens=tokens), chosen), want)
    model.supports_selection = False
    close(model.select_states(Inputs(tokens=tokens), chosen), want)


@pytest.mark.parametrize("name", ["absolute", "composite", "composite + key"])
def test_words_and_positions_moved_together_move_the_states(name):
    model, tokens = encoder(name), torch.randint(30, (2, 9))
    assert model.takes_positions
    order = torch.randperm(9)
    moved = states(model, tokens[:, order], positions=order.expand(2, 9))
    close(moved, states(model, tokens)[:, order])


@pytest.mark.parametrize(("name", "takes"), [("none", False), ("convolutions", False)])
def test_an_encoder_says_when_position_ids_do_not_tell_it_the_order(name, takes):
    assert encoder(name).takes_positions is takes


@every_variant
def test_a_sentence_of_padding_alone_gives_numbers_and_finite_gradients(name):
    model = encoder(name, torch.float32)
    padding = torch.tensor([[False] * 6, [True] * 6])
    got = states(model, torch.randint(30, (2, 6)), padding=padding)
    got.sum().backward()
    assert got.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("name", ["none", "composite", "convolutions"])
def test_without_a_position_table_any_length_works(name):
    model = encoder(name, torch.float32)
    assert model.max_positions is None
    assert states(model, torch.randint(30, (1, 300))).isfinite().all()


def test_a_sentence_longer_than_the_position_table_is_refused():
    model = encoder("absolute")
    assert model.max_positions == 12
    with pytest.raises(ToolkitError, match=r"at most arch.max_positions = 12 tokens .* has 13"):
        states(model, torch.randint(30, (1, 13)))


def test_the_first_token_type_is_meant_where_none_is_given():
    model, tokens = encoder("composite"), torch.randint(30, (2, 5))
    close(states(model, tokens, segments=torch.zeros_like(tokens)), states(model, tokens))
    assert not states(model, tokens, segments=torch.ones_like(tokens)).allclose(
        states(model, tokens)
    )


@pytest.mark.parametrize("positions", [None, torch.arange(9).expand(4, 9)])
@pytest.mark.parametrize("name", ["composite + key", "convolutions"])
def test_two_runs_give_the_same_gradients_bit_for_bit(name, positions):
    tokens = torch.randint(30, (4, 9))

    def gradients() -> list[torch.Tensor]:
        model = encoder(name, torch.float32).train()
        torch.manual_seed(1)
        with torch.autocast("cpu", torch.bfloat16):
            got = states(model, tokens, **({} if positions is None else {"positions": positions}))
        got.float().square().sum().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    for one, other in zip(gradients(), gradients(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", ["composite + key", "convolutions"])
def test_activation_checkpointing_recomputes_what_was_computed(name, reentrant):
    model = encoder(name, torch.float32).train()
    layer, x = model.layers[0], torch.randn(4, 9, 16, requires_grad=True)
    places = SequenceContext(Offsets(None, 9, x.device))

    def gradients(forward) -> list[torch.Tensor]:
        torch.manual_seed(1)
        model.zero_grad()
        forward(x, places).square().sum().backward()
        return [p.grad.clone() for p in layer.parameters()]

    plain = gradients(layer)
    for got, want in zip(
        gradients(lambda *a: checkpoint(layer, *a, use_reentrant=reentrant)), plain, strict=True
    ):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)  # other kernels, same masks


def test_linear_maps_and_tables_start_normal_and_biases_at_zero():
    entry = ARCHITECTURES["composite_bert_small"]
    model = entry.factory(dataclasses.replace(entry.config, layers=1), Sizes(tokens=500))
    for part in model.modules():
        if isinstance(part, torch.nn.Linear | torch.nn.Embedding) and part.weight.numel() > 9999:
            assert part.weight.std().item() == pytest.approx(0.02, rel=0.03)
        if isinstance(part, torch.nn.Linear):
            assert not part.bias.any()


def test_every_norm_adds_what_is_asked_for_and_borrowed_tables_are_widened_by_a_fresh_map():
    entry = ARCHITECTURES["composite_bert_small"]
    c = dataclasses.replace(entry.config, layers=1, embedding_width=128, norm_epsilon=1e-5)
    model, lender = (entry.factory(c, Sizes(tokens=50)) for _ in range(2))
    norms = [part for part in model.modules() if isinstance(part, torch.nn.LayerNorm)]
    assert len(norms) == 3 and {norm.eps for norm in norms} == {1e-5}
    model.tie_embeddings_to(lender)
    widen = model.embeddings.widen
    assert widen.weight.std().item() == pytest.approx(0.02, rel=0.03) and not widen.bias.any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 12, "heads": 5}, r"arch.width must be a multiple .* 12 = 2 x 5 \+ 2"),
        ({"layers": 0}, r"arch.layers must be at least 1, but is 0"),
        ({"dropout": 1.0}, r"arch.dropout must be at least 0 and below 1, but is 1.0"),
        ({"embedding_width": -1}, r"arch.embedding_width must be at least 1, but is -1"),
        ({"radius": 0}, r"arch.radius must be at least 1, but is 0"),
        ({"convolve": ["values"]}, r"one of query, key, value, but is 'values'"),
        ({"convolve": ["key"], "heads": 1}, r"arch.heads must be even .* but is 1"),
    ],
)
def test_a_shape_that_cannot_be_built_is_refused_when_it_is_written_down(changes, message):
    config = ARCHITECTURES["composite_bert_tiny"].config
    with pytest.raises(ToolkitError, match=message):
        dataclasses.replace(config, **changes)
