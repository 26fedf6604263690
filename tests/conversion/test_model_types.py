import pytest
import torch
import transformers

from toolkit.config.load import compose
from toolkit.conversion.architectures import arch_options
from toolkit.conversion.files import build_on_meta
from toolkit.conversion.model_types import DEBERTA, MODEL_TYPES
from toolkit.conversion.tensors import expected_shapes
from toolkit.models.interface import Sizes

DEBERTA_V2 = {
    **{"relative_attention": True, "position_biased_input": False, "pos_att_type": "p2c|c2p"},
    **{"share_att_key": True, "norm_rel_ebd": "layer_norm", "position_buckets": 256},
}
"""Settings of all published models that are not the defaults of Transformers."""
PUBLISHED = {
    "bert": (transformers.BertForMaskedLM, transformers.BertConfig()),
    "electra": (transformers.ElectraForMaskedLM, transformers.ElectraConfig()),
    "convbert": (transformers.ConvBertForMaskedLM, transformers.ConvBertConfig()),
    "modernbert": (transformers.ModernBertForMaskedLM, transformers.ModernBertConfig()),
    "deberta-v2": (transformers.DebertaV2ForMaskedLM, transformers.DebertaV2Config(**DEBERTA_V2)),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_mappings_cover_every_tensor_of_the_published_sizes(name):
    """Settings that a config omits have the defaults of Transformers."""
    model_type, (build, config) = MODEL_TYPES[name], PUBLISHED[name]
    with torch.device("meta"):
        hf_tensors = build(config).state_dict()
    settings = DEBERTA_V2 if model_type is DEBERTA else {}
    options = {f"arch.{name}": it for name, it in arch_options(model_type, settings).items()}
    run = compose({"arch": model_type.arch, "task": "mlm", **options})
    shapes = build_on_meta(run, Sizes(tokens=config.vocab_size)).state_dict()
    mappings = model_type.mappings(shapes, model_type.head)
    assert [mapping.toolkit_name for mapping in mappings] == list(shapes)
    found = expected_shapes(mappings, shapes)
    prefix = model_type.prefix
    hf_tensors = {key.removeprefix(prefix): tuple(t.shape) for key, t in hf_tensors.items()}
    assert found == {key: shape for key, shape in hf_tensors.items() if key not in model_type.tied}


@pytest.mark.parametrize("name", PUBLISHED)
def test_settings_that_a_config_omits_have_the_defaults_of_transformers(name):
    model_type = MODEL_TYPES[name]
    config = type(PUBLISHED[name][1])()
    given = model_type.defaults
    assert given == {key: getattr(config, key, value) for key, value in given.items()}
