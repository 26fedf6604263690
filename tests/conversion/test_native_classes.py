"""Imported models give the outputs of Transformers with the same weights."""

from __future__ import annotations

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.conversion.conftest import SHAPE, run_alone
from toolkit import load_checkpoint
from toolkit.checkpoints.load import read_config
from toolkit.common.errors import ToolkitError
from toolkit.common.plugins import load_folder
from toolkit.common.registry import TASKS
from toolkit.config.load import compose
from toolkit.config.sections import ComponentConfig
from toolkit.conversion.files import ConvertedModel, write_checkpoint
from toolkit.conversion.native_classes import export_native
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs, Sizes
from toolkit.tasks.build import build_learner
from toolkit.training.resume import load_finetune_weights

TRUNKS = {
    "bert": ("BertModel", {}),
    "electra": ("ElectraModel", {"embedding_size": 12}),
    "convbert": ("ConvBertModel", {"embedding_size": 12}),
    "convbert, groups": ("ConvBertModel", {"embedding_size": 24, "num_groups": 2}),
    "convbert, one head": ("ConvBertModel", {"embedding_size": 12, "num_attention_heads": 1}),
    "deberta": ("DebertaV2Model", {}),
    "deberta, token types": ("DebertaV2Model", {"type_vocab_size": 2}),
    "deberta, clipped": ("DebertaV2Model", {"max_position_embeddings": 6}),
    **{
        f"deberta, {n} positions": (
            "DebertaV2Model",
            {"max_position_embeddings": n, "position_buckets": buckets},
        )
        for n, buckets in ((1, 8), (4, 12), (11, 20), (7, 64))  # fewer than half of the buckets
    },
}


def batch():
    torch.manual_seed(1)
    tokens, segments = torch.randint(SHAPE["vocab_size"], (3, 11)), torch.randint(2, (3, 11))
    padding = torch.arange(11) >= torch.tensor([11, 6, 9])[:, None]
    inputs = Inputs(tokens=tokens, segments=segments, padding=padding)
    hf_inputs = {
        "input_ids": tokens,
        "token_type_ids": segments,
        "attention_mask": (~padding).long(),
    }
    return inputs, hf_inputs


@pytest.mark.parametrize("case", TRUNKS)
def test_imported_states_equal_transformers(saved, converted, case):
    name, settings = TRUNKS[case]
    model, folder = saved(name, **settings)
    learner = load_checkpoint(converted(folder))
    inputs, hf_inputs = batch()
    want = run_alone(model, hf_inputs, "last_hidden_state")
    with torch.no_grad():
        got = learner.encoder(inputs).states
    assert want.std() > 0.1
    torch.testing.assert_close(got[~inputs.padding], want[~inputs.padding], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("BertForMaskedLM", {}),
        ("BertForPreTraining", {"layer_norm_eps": 1e-3}),
        ("ElectraForMaskedLM", {"embedding_size": 12}),
        ("ConvBertForMaskedLM", {"embedding_size": 12}),
        ("DebertaV2ForMaskedLM", {}),
        ("DebertaV2ForMaskedLM", {"legacy": False}),
    ],
)
def test_imported_masked_token_scores_equal_transformers(saved, converted, name, settings):
    model, folder = saved(name, **settings)
    learner = load_checkpoint(converted(folder))
    inputs, hf_inputs = batch()
    with torch.no_grad():
        output = "prediction_logits" if "PreTraining" in name else "logits"
        want = run_alone(model, hf_inputs, output)
        states = learner.encoder(inputs).states.flatten(0, 1)
        got = learner.task.head(states, learner.encoder.token_embedding.weight).view(want.shape)
    torch.testing.assert_close(got[~inputs.padding], want[~inputs.padding], atol=1e-5, rtol=1e-5)


def test_bias_that_a_file_has_only_as_the_copy_of_the_decoder_is_read(saved, converted):
    model, folder = saved("BertForMaskedLM")
    tensors = load_file(folder / "model.safetensors")
    bias = tensors.pop("cls.predictions.bias") + torch.arange(SHAPE["vocab_size"])
    save_file(
        {**tensors, "cls.predictions.decoder.bias": bias},
        folder / "model.safetensors",
        {"format": "pt"},
    )
    model = type(model).from_pretrained(folder).eval()
    learner, (inputs, hf_inputs) = load_checkpoint(converted(folder)), batch()
    want = run_alone(model, hf_inputs, "logits")
    assert want.mean() > 1 and torch.equal(learner.task.head.bias, bias)
    with torch.no_grad():
        states = learner.encoder(inputs).states.flatten(0, 1)
        got = learner.task.head(states, learner.encoder.token_embedding.weight).view(want.shape)
    torch.testing.assert_close(got[~inputs.padding], want[~inputs.padding], atol=1e-5, rtol=1e-5)


def test_imported_discriminator_continues_with_rtd(saved, converted):
    model, folder = saved("ElectraForPreTraining", embedding_size=12)
    checkpoint = converted(folder)
    run, sizes = read_config(checkpoint)
    learner = build_learner(run.arch, ComponentConfig("rtd", TASKS["rtd"].config), sizes).eval()
    messages = []
    load_finetune_weights(str(checkpoint), learner, Tokenizer.load(checkpoint), messages.append)
    inputs, hf_inputs = batch()
    with torch.no_grad():
        got = learner.task.head(learner.encoder(inputs).states.flatten(0, 1))
        want = model(**hf_inputs).logits
    kept = ~inputs.padding
    torch.testing.assert_close(got.view(want.shape)[kept], want[kept], atol=1e-5, rtol=1e-5)
    assert "checkpoint has none: task.generator" in messages[1] and "unknown" not in "".join(
        messages
    )


MODELS = {
    "BertForMaskedLM": {"layer_norm_eps": 1e-5},
    "BertForPreTraining": {"classifier_dropout": 0.25},
    "BertForSequenceClassification": {"num_labels": 3},
    "ElectraForPreTraining": {"embedding_size": 12},
    "ElectraForSequenceClassification": {"problem_type": "multi_label_classification"},
    "ConvBertForTokenClassification": {"num_labels": 5},
    "ConvBertForMaskedLM": {"embedding_size": 12, "num_groups": 2},
    "DebertaV2Model": {"type_vocab_size": 2},
    "DebertaV2ForMaskedLM": {"legacy": False},
    "DebertaV2ForSequenceClassification": {"cls_dropout": 0.25},
}


@pytest.mark.parametrize("name", MODELS)
def test_round_trip_restores_every_bit(saved, converted, name):
    _, folder = saved(name, **MODELS[name])
    back = converted(converted(folder), "hf")
    before, after = (load_file(path / "model.safetensors") for path in (folder, back))
    assert before.keys() == after.keys()
    for key, tensor in before.items():
        assert torch.equal(tensor, after[key]) and tensor.dtype == after[key].dtype, key
    settings = [json.loads((path / "config.json").read_text()) for path in (folder, back)]
    different = {k for k in settings[0] if settings[0][k] != settings[1].get(k)}
    assert not different


def checkpoint(folder, tokenizer_from, arch, task="mlm", **options):
    """A checkpoint as training would write it, with random weights."""
    places = {k: f"task.{k}" if k == "objectives" else f"arch.{k}" for k in options}
    run = compose({"arch": arch, "task": task, **{places[k]: v for k, v in options.items()}})
    tokenizer = Tokenizer.load(tokenizer_from)
    sizes = Sizes(**tokenizer.sizes)
    torch.manual_seed(3)
    tensors = build_learner(run.arch, run.task, sizes).state_dict()
    write_checkpoint(
        folder, ConvertedModel(run=run, sizes=sizes, tensors=tensors, tokenizer=tokenizer), folder
    )
    return folder


@pytest.mark.parametrize(
    ("arch", "class_"),
    [
        ("bert_tiny", "ElectraForMaskedLM"),
        ("convbert_tiny", "ConvBertForMaskedLM"),
        ("deberta_tiny", "DebertaV2ForMaskedLM"),
    ],
)
def test_exported_model_equals_the_model_trained_here(data, tmp_path, converted, arch, class_):
    source = checkpoint(tmp_path / "checkpoint", data, arch, layers=1)
    folder = converted(source, "hf")
    hf_model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    assert type(hf_model).__name__ == class_
    learner = load_checkpoint(source)
    tokens = torch.randint(len(learner.tokenizer.vocabulary), (2, 7))
    with torch.no_grad():
        states = learner.encoder(Inputs(tokens=tokens)).states.flatten(0, 1)
        got = learner.task.head(states, learner.encoder.token_embedding.weight).view(2, 7, -1)
        torch.testing.assert_close(got, hf_model(input_ids=tokens).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("arch", "options", "message"),
    [
        ("composite_bert_tiny", {}, "must be bert, convbert, .* is composite_bert"),
        ("deberta_tiny", {"qk_norm": True}, "has arch.qk_norm True"),
        ("bert_tiny", {"positions": ["rope", "alibi"]}, "has arch.positions rope, alibi"),
        ("bert_tiny", {"token_types": 0}, "has no token types"),
        ("deberta_tiny", {"embedding_width": 64}, "projects its embeddings after their norm"),
        ("modernbert_tiny", {"attention_window": None}, "has no sliding windows"),
        ("bert_tiny", {"hidden_position_embedding": True}, "has a row for hidden positions"),
        (
            "convbert_tiny",
            {"heads": 4, "head_ratio": 4},
            "heads of width 32 that do not sum to half",
        ),
    ],
)
def test_export_rejects_what_transformers_lacks(data, tmp_path, arch, options, message):
    source = checkpoint(tmp_path / "checkpoint", data, arch, layers=1, **options)
    with pytest.raises(ToolkitError, match=message):
        export_native(source, tmp_path / "exported")


def test_export_rejects_a_plugin_with_a_similar_name(data, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "silent.py").write_text(
        "from toolkit import register_arch\n"
        "from toolkit.models.bert import BertConfig, bert\n"
        "register_arch('silent_bert', BertConfig(layers=1, width=8, heads=2))(bert)\n"
        "@register_arch('bert_silent', BertConfig(layers=1, width=8, heads=2))\n"
        "def silent(c, sizes):\n"
        "    encoder = bert(c, sizes)\n"
        "    encoder.layers = encoder.layers[:0]\n"
        "    return encoder\n"
    )
    load_folder(str(tmp_path / "mine"))
    with pytest.raises(ToolkitError, match=r"must be bert, convbert, .* is bert_silent"):
        export_native(
            checkpoint(tmp_path / "checkpoint", data, "bert_silent"), tmp_path / "exported"
        )
    facts = export_native(
        checkpoint(tmp_path / "others", data, "silent_bert"), tmp_path / "exported"
    )
    assert facts["class"] == "BertForMaskedLM" and not facts["omitted_tensors"]


@pytest.mark.parametrize(
    ("net", "class_"),
    [("discriminator", "ElectraForPreTraining"), ("generator", "ElectraForMaskedLM")],
)
def test_exported_generator_and_discriminator_equal_the_pair(
    data, tmp_path, converted, net, class_
):
    source = checkpoint(tmp_path / "checkpoint", data, "bert_tiny", task="rtd", layers=1)
    folder = converted(source, "hf", component=net)
    hf_model = getattr(transformers, class_).from_pretrained(folder).eval()
    assert hf_model.config.architectures == [class_]
    learner = load_checkpoint(source)
    tokens = torch.randint(len(learner.tokenizer.vocabulary), (2, 7))
    encoder = learner.encoder if net == "discriminator" else learner.task.generator.encoder
    with torch.no_grad():
        states = encoder(Inputs(tokens=tokens)).states.flatten(0, 1)
        if net == "discriminator":
            got = learner.task.head(states)
        else:
            got = learner.task.generator.head(states, encoder.token_embedding.weight)
        want = hf_model(input_ids=tokens).logits
    torch.testing.assert_close(got.view(want.shape), want, atol=1e-5, rtol=1e-5)
