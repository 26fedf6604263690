import pytest
import torch
import transformers

from toolkit.conversion.huggingface.config_mapping import options
from toolkit.conversion.huggingface.model_types import BERT, CONVBERT, ELECTRA, FAMILIES
from toolkit.conversion.tensor_mapping import expected
from toolkit.conversion.write_checkpoint import empty, run_of, widened
from toolkit.models.interface import Sizes

PUBLISHED = {
    "bert": (transformers.BertForMaskedLM, transformers.BertConfig()),
    "electra": (transformers.ElectraForMaskedLM, transformers.ElectraConfig()),
    "convbert": (transformers.ConvBertForMaskedLM, transformers.ConvBertConfig()),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_tensor_of_the_published_sizes_has_its_place_and_shape(name):
    """And what a config is silent about is what theirs is by default."""
    family, (build, config) = FAMILIES[name], PUBLISHED[name]
    with torch.device("meta"):
        theirs = build(config).state_dict()
    run = run_of(family.arch, "mlm", options(family, {}))
    arch = run.arch.config
    pieces = family.pieces(arch.layers, widened=widened(arch), head=True)
    found = expected(pieces, empty(run, Sizes(tokens=30522)).state_dict())
    theirs = {key.removeprefix(f"{name}."): tuple(t.shape) for key, t in theirs.items()}
    assert found == {key: shape for key, shape in theirs.items() if key not in family.tied}


def test_what_lies_beside_a_model_is_kept_under_one_name_each():
    for family, theirs, ours in (
        (BERT, "pooler.dense.weight", "task.pooler.weight"),
        (BERT, "cls.seq_relationship.bias", "hugging_face.cls.seq_relationship.bias"),
        (ELECTRA, "discriminator_predictions.dense.bias", "task.head.transform.bias"),
        (ELECTRA, "discriminator_predictions.dense_prediction.bias", "task.head.score.bias"),
        (CONVBERT, "classifier.dense.weight", "hugging_face.classifier.dense.weight"),
    ):
        assert family.ours_of(theirs) == ours and family.theirs_of(ours) == theirs
    assert BERT.ours_of("encoder.layer.0.output.dense.bias") is None
    assert BERT.theirs_of("task.generator.head.bias") is None


def test_names_of_rtd_s_head_are_those_that_its_task_has(data):
    from toolkit import build_model

    with torch.device("meta"):
        learner = build_model("bert_tiny", vocabulary_size=20, task="rtd")
    names = {ELECTRA.theirs_of(n) for n in learner.state_dict() if n.startswith("task.head.")}
    assert names == {
        f"discriminator_predictions.{part}.{kind}"
        for part in ("dense", "dense_prediction")
        for kind in ("weight", "bias")
    }
