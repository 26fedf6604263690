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
    """And what a config is silent about is what theirs is by default."""
    family, (build, config) = MODEL_TYPES[name], PUBLISHED[name]
    with torch.device("meta"):
        theirs = build(config).state_dict()
    run = compose_run(family.arch, "mlm", arch_options(family, {}))
    arch = run.arch.config
    pieces = family.mappings(arch.layers, projected=projects_embeddings(arch), head=True)
    found = expected_shapes(pieces, build_on_meta(run, Sizes(tokens=30522)).state_dict())
    theirs = {key.removeprefix(f"{name}."): tuple(t.shape) for key, t in theirs.items()}
    assert found == {key: shape for key, shape in theirs.items() if key not in family.tied}


def test_extra_tensors_have_unique_names():
    for family, theirs, ours in (
        (BERT, "pooler.dense.weight", "task.pooler.weight"),
        (BERT, "cls.seq_relationship.bias", "hugging_face.cls.seq_relationship.bias"),
        (ELECTRA, "discriminator_predictions.dense.bias", "task.head.transform.bias"),
        (ELECTRA, "discriminator_predictions.dense_prediction.bias", "task.head.score.bias"),
        (CONVBERT, "classifier.dense.weight", "hugging_face.classifier.dense.weight"),
    ):
        assert family.toolkit_name(theirs) == ours and family.external_name(ours) == theirs
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
