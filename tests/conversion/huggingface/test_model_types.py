import pytest
import torch
import transformers

from toolkit.conversion.huggingface.config_mapping import arch_options
from toolkit.conversion.huggingface.model_types import BERT, CONVBERT, ELECTRA, MODEL_TYPES
from toolkit.conversion.tensor_mapping import expected_shapes
from toolkit.conversion.write_checkpoint import build_on_meta, compose_run, projects_embeddings
from toolkit.models.interface import Sizes

PUBLISHED = {
    "bert": (transformers.BertForMaskedLM, transformers.BertConfig()),
    "electra": (transformers.ElectraForMaskedLM, transformers.ElectraConfig()),
    "convbert": (transformers.ConvBertForMaskedLM, transformers.ConvBertConfig()),
}


@pytest.mark.parametrize("name", MODEL_TYPES)
def test_mappings_cover_every_tensor_of_the_published_sizes(name):
    """Settings that a config omits have the defaults of Transformers."""
    model_type, (build, config) = MODEL_TYPES[name], PUBLISHED[name]
    with torch.device("meta"):
        hf_tensors = build(config).state_dict()
    run = compose_run(model_type.arch, "mlm", arch_options(model_type, {}))
    arch = run.arch.config
    mappings = model_type.mappings(arch.layers, projected=projects_embeddings(arch), head=True)
    found = expected_shapes(mappings, build_on_meta(run, Sizes(tokens=30522)).state_dict())
    hf_tensors = {key.removeprefix(f"{name}."): tuple(t.shape) for key, t in hf_tensors.items()}
    assert found == {key: shape for key, shape in hf_tensors.items() if key not in model_type.tied}


def test_extra_tensors_have_unique_names():
    for model_type, hf_name, name in (
        (BERT, "pooler.dense.weight", "task.pooler.weight"),
        (BERT, "cls.seq_relationship.bias", "hugging_face.cls.seq_relationship.bias"),
        (ELECTRA, "discriminator_predictions.dense.bias", "task.head.transform.bias"),
        (ELECTRA, "discriminator_predictions.dense_prediction.bias", "task.head.score.bias"),
        (CONVBERT, "classifier.dense.weight", "hugging_face.classifier.dense.weight"),
    ):
        assert model_type.toolkit_name(hf_name) == name
        assert model_type.external_name(name) == hf_name
    assert BERT.toolkit_name("encoder.layer.0.output.dense.bias") is None
    assert BERT.external_name("task.generator.head.bias") is None


def test_extra_tensors_match_the_head_of_rtd(data):
    from toolkit import build_model

    with torch.device("meta"):
        learner = build_model("bert_tiny", vocabulary_size=20, task="rtd")
    names = {ELECTRA.external_name(n) for n in learner.state_dict() if n.startswith("task.head.")}
    assert names == {
        f"discriminator_predictions.{part}.{kind}"
        for part in ("dense", "dense_prediction")
        for kind in ("weight", "bias")
    }
