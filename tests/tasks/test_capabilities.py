from __future__ import annotations

import pytest

from toolkit import build_model
from toolkit.common.errors import ToolkitError


@pytest.mark.parametrize("arch", ["transformer_tiny", "transformer_lm_tiny"])
def test_encoder_tasks_reject_generative_architectures(arch):
    with pytest.raises(ToolkitError, match=r"Task mlm requires an encoder, but"):
        build_model(arch, vocabulary_size=17, task="mlm")
