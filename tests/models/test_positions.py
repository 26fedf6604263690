from __future__ import annotations

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.models.bert import BertConfig
from toolkit.models.transformer import TransformerLMConfig

PAIRS = {
    "learned sinusoidal": "both are vectors added to the token embeddings",
    "fixed composite": "composite contains it",
    "shaw composite": "composite contains it",
    **{f"{other} deberta": "this would be a fourth" for other in ("shaw", "xl", "composite")},
    "rope xl": "no paper says which comes first",
}


@pytest.mark.parametrize("config", [BertConfig, TransformerLMConfig])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_pair_that_cannot_be_combined_is_rejected_with_the_reason(pair, config):
    names = pair.split()
    with pytest.raises(ToolkitError, match=rf"both {' and '.join(names)}: .*{PAIRS[pair]}"):
        config(positions=names[::-1])
