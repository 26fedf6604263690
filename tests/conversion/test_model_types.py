import pytest
import torch
import transformers

from toolkit.config.load import compose
from toolkit.conversion.architectures import arch_options
from toolkit.conversion.files import build_on_meta
from toolkit.conversion.model_types import (
    BERT,
    CONVBERT,
    DEBERTA,
    ELECTRA,
    MODEL_TYPES,
    replace_prefix,
)
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


@pytest.mark.parametrize("name", MODEL_TYPES)
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


@pytest.mark.parametrize("name", MODEL_TYPES)
def test_settings_that_a_config_omits_have_the_defaults_of_transformers(name):
    model_type = MODEL_TYPES[name]
    config = type(PUBLISHED[name][1])()
    given = {**model_type.defaults, **model_type.omitted}
    assert given == {key: getattr(config, key, value) for key, value in given.items()}


def inverse(prefixes):
    return {new: old for old, new in prefixes.items()}


def test_extra_tensors_have_unique_names():
    for model_type, hf_name, name in (
        (BERT, "pooler.dense.weight", "task.pooler.weight"),
        (BERT, "cls.seq_relationship.bias", "hugging_face.cls.seq_relationship.bias"),
        (ELECTRA, "discriminator_predictions.dense.bias", "task.head.transform.bias"),
        (ELECTRA, "discriminator_predictions.dense_prediction.bias", "task.head.score.bias"),
        (CONVBERT, "classifier.dense.weight", "hugging_face.classifier.dense.weight"),
        (DEBERTA, "mask_predictions.dense.bias", "hugging_face.mask_predictions.dense.bias"),
    ):
        assert replace_prefix(hf_name, model_type.extra) == name
        assert replace_prefix(name, inverse(model_type.extra)) == hf_name
        assert len(inverse(model_type.extra)) == len(model_type.extra)
    assert replace_prefix("encoder.layer.0.output.dense.bias", BERT.extra) is None
    assert replace_prefix("task.generator.head.bias", inverse(BERT.extra)) is None


def test_extra_tensors_match_the_head_of_rtd(data):
    from toolkit import build_model

    with torch.device("meta"):
        learner = build_model("bert_tiny", vocabulary_size=20, task="rtd")
    heads = [name for name in learner.state_dict() if name.startswith("task.head.")]
    names = {replace_prefix(name, inverse(ELECTRA.extra)) for name in heads}
    assert names == {
        f"discriminator_predictions.{part}.{kind}"
        for part in ("dense", "dense_prediction")
        for kind in ("weight", "bias")
    }
