import dataclasses

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES
from toolkit.models.interface import Sizes


def parameters(name, tokens):
    entry = ARCHITECTURES[name]
    with torch.device("meta"):
        model = entry.factory(entry.config, Sizes(tokens=tokens))
    return sum(p.numel() for p in model.parameters())


def test_dynamicconv_big_has_the_published_number_of_parameters():
    """213 million (Wu et al. 2019, table 1) with 32,768 joined symbols of WMT English-German."""
    assert parameters("dynamicconv_big", 32_768) == 213_237_760 == pytest.approx(213e6, abs=0.5e6)


def test_lightconv_and_dynamicconv_differ_by_the_parameters_of_kernels():
    taps, heads, width = 149 + 118, 16, 1024
    kernel_difference = heads * (width - 1) * taps
    assert parameters("dynamicconv_big", 9) - parameters("lightconv_big", 9) == kernel_difference


@pytest.mark.parametrize("side", ["encoder_kernels", "decoder_kernels"])
def test_even_kernel_size_is_rejected(side):
    with pytest.raises(
        ToolkitError, match=rf"arch.{side} must be one or more odd numbers, but is .*4"
    ):
        dataclasses.replace(ARCHITECTURES["lightconv"].config, **{side: [3, 4]})
