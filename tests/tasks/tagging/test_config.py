import pytest

from toolkit.common.errors import ToolkitError
from toolkit.models.bert import BertConfig
from toolkit.models.composite_bert import CompositeBertConfig, composite_bert
from toolkit.models.conv_san import ConvSanConfig
from toolkit.models.interface import Sizes
from toolkit.tasks.tagging.config import PosTaggingConfig, resolve_tagging


@pytest.mark.parametrize(
    ("arch", "tokens", "fixed"), [(BertConfig(), 128, 0), (ConvSanConfig(), 60, 60)]
)
def test_chunks_are_as_long_as_the_maximum_of_the_architecture(arch, tokens, fixed):
    resolved = resolve_tagging(PosTaggingConfig(pooling="mean"), arch)
    assert (resolved.tokens_per_sample, resolved.fixed_length, resolved.pooling) == (
        tokens,
        fixed,
        "mean",
    )


@pytest.mark.parametrize(("absolute", "tokens"), [(False, 512), (True, 128)])
def test_config_and_encoder_allow_the_same_length(absolute, tokens):
    arch = CompositeBertConfig(layers=1, width=8, heads=2, absolute_positions=absolute)
    encoder = composite_bert(arch, Sizes(tokens=9))
    for source in (arch, encoder):
        assert resolve_tagging(PosTaggingConfig(), source).tokens_per_sample == tokens
        if not absolute:  # no maximum
            longer = PosTaggingConfig(tokens_per_sample=600)
            assert resolve_tagging(longer, source).tokens_per_sample == 600


def test_tokens_per_sample_may_be_shorter_but_not_longer_than_the_maximum():
    assert (
        resolve_tagging(PosTaggingConfig(tokens_per_sample=9), BertConfig()).tokens_per_sample == 9
    )
    with pytest.raises(ToolkitError, match=r"must be at most .* length, 128, but is 200"):
        resolve_tagging(PosTaggingConfig(tokens_per_sample=200), BertConfig())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pooling": "last"}, "task.pooling must be one of first, mean, but is 'last'"),
        ({"tokens_per_sample": 2}, "task.tokens_per_sample must be 0 or at least 3, but is 2"),
    ],
)
def test_tagging_config_rejects_options_out_of_range(values, message):
    with pytest.raises(ToolkitError, match=message):
        PosTaggingConfig(**values)
