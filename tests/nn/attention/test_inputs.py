"""Copies of the inputs of attention."""

from pathlib import Path

import torch

import toolkit.nn
from toolkit.nn.attention.inputs import AttentionInputs, Offsets, SequenceContext

SOURCES = sorted(Path(toolkit.nn.__file__).parent.rglob("*.py"))


def make_inputs():
    q, k, v = torch.randn(3, 1, 2, 4, 3)
    sequence = SequenceContext(Offsets(None, 4, v.device), torch.zeros(1, 4, dtype=torch.bool))
    return AttentionInputs(q, k, v, torch.randn(1, 4, 6), sequence)


def test_a_copy_has_other_fields_and_shares_the_rest():
    p = make_inputs()
    changed = p.replace(v=p.q)
    assert changed.v is p.q
    assert all(a is b for a, b in zip(changed._replace(v=p.v), p, strict=True))


def test_terms_read_queries_and_keys_from_before_every_change_of_content():
    p = make_inputs()
    twice = p.with_content(p.q + 1, p.k + 1).with_content(p.q + 2, p.k + 2)
    assert twice.term_queries is p.q and twice.term_keys is p.k
    assert torch.equal(twice.q, p.q + 2)


def test_layers_are_free_of_what_torch_2_11_compiles_to_an_empty_tuple():
    """A graph break after `_replace` leaves a tuple without fields there."""
    assert len(SOURCES) > 40
    assert not [file.name for file in SOURCES if "._replace(" in file.read_text("utf-8")]
