"""ConvBERT: published sizes and rejected configs."""

from __future__ import annotations

import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.models.interface import Inputs


@pytest.mark.parametrize("kind", ["span", "dynamic", "conventional", "none"])
def test_convbert_states_do_not_depend_on_padding_or_the_batch(kind):
    model = build_model("convbert_tiny", vocabulary_size=50, conv_type=kind).eval()
    tokens = torch.randint(0, 50, (2, 37))
    padding = torch.arange(37) >= torch.tensor([37, 20])[:, None]
    in_batch = model(Inputs(tokens, padding=padding)).states[1, :20]
    alone = model(Inputs(tokens[1:, :20])).states[0]
    torch.testing.assert_close(in_batch, alone, atol=1e-5, rtol=0)


def test_convbert_takes_positions_without_convolutions_only():
    assert build_model("convbert_tiny", vocabulary_size=9, conv_type="none").takes_positions
    for kind in ("span", "dynamic", "conventional"):
        with pytest.raises(ToolkitError, match="sees positions only through position ids"):
            build_model(
                "convbert_tiny",
                vocabulary_size=9,
                task="mpm",
                conv_type=kind,
                hidden_position_embedding=True,
            )


def test_depthwise_convolutions_start_from_a_truncated_normal_or_torchs_default():
    taps = [
        layer.attention.values.convolution.kernel.span.depthwise.convolution.weight
        for name in ("convbert_small", "convbert_small_chang")
        for layer in build_model(name, vocabulary_size=9, layers=1).layers
    ]
    assert 0.9 * 2 / 9 < taps[0].abs().max() <= 2 / 9
    assert taps[0].std().item() == pytest.approx(
        0.88 / 9, rel=0.05
    )  # 12 % less than 1 / 9 by truncation
    assert 0.9 / 3 < taps[1].abs().max() <= 1 / 3
