"""Models between from_pretrained and save_pretrained: new heads, plugins, the files of a folder."""

import importlib
import sys

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from toolkit import ToolkitError, build_model, load_checkpoint
from toolkit.cli.convert import main
from toolkit.common.plugins import load_folder
from toolkit.common.registry import ARCHITECTURES
from toolkit.data.storage.data_folder import DataFolder
from toolkit.huggingface import to_huggingface
from toolkit.models.interface import Inputs

PLUGIN = '''"""An architecture with a buffer that no file has."""

import torch

from toolkit import register_arch
from toolkit.models.bert import BertConfig, bert

from .scales import SCALE


@register_arch("{name}", BertConfig(layers=1, width=16, heads=2, embedding_width=8))
def scaled(c, sizes):
    encoder = bert(c, sizes)
    encoder.register_buffer("scale", torch.tensor(SCALE), persistent=False)
    encoder.register_forward_hook(lambda self, _, out: out._replace(states=out.states * self.scale))
    return encoder
'''


def test_new_heads_start_as_the_toolkit_initializes_them(make_learner, export):
    learner, _ = make_learner("mlm", "composite_bert_tiny")
    folder = export(learner)[1]
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3)
    head = model.head.head.output
    assert head.weight.shape == (3, learner.encoder.width)
    assert head.bias.eq(0).all() and 0.01 < model.head.pooler.weight.std() < 0.03
    before, after = learner.encoder.state_dict(), model.encoder.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_trained_heads_keep_their_labels_on_the_way_back(make_learner, export, tmp_path):
    """A classifier of an mlm export, as if trained in Transformers."""
    learner, _ = make_learner("mlm", "composite_bert_tiny")
    labels = {0: "bad", 1: "fair", 2: "good"}
    model = AutoModelForSequenceClassification.from_pretrained(export(learner)[1], id2label=labels)
    model.save_pretrained(tmp_path / "tuned")
    assert main(["import", str(tmp_path / "tuned"), str(tmp_path / "back")]) == 0
    back = load_checkpoint(tmp_path / "back")
    assert back.tokenizer.labels.classes == ["bad", "fair", "good"]
    assert back.tokenizer.fingerprint.startswith(learner.tokenizer.fingerprint)
    tokens = torch.tensor([back.tokenizer.encode("the cat sat")])
    assert torch.equal(model.head.head.output.weight, back.task.head.output.weight)
    assert torch.equal(model.encoder.token_embedding(tokens), back.encoder.token_embedding(tokens))


def test_saved_folders_are_as_complete_as_exports(make_learner, export, tmp_path):
    learner, _ = make_learner("mlm", "composite_bert_tiny")
    folder = export(learner)[1]
    AutoModelForMaskedLM.from_pretrained(folder).save_pretrained(tmp_path / "again")
    for name in ("modeling_toolkit.py", "toolkit_tokenizer.json", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize("problem", ["regression", "single_label_classification"])
def test_losses_of_classifiers_are_those_of_transformers(make_learner, hf_inputs, problem):
    learner, batch = make_learner("glue" if "single" in problem else "regression", "bert_tiny")
    model, inputs = to_huggingface(learner), hf_inputs(batch.inputs)
    output = model(**inputs, labels=batch.targets)
    if problem == "regression":
        expected = (output.logits[:, 0] - batch.targets).square().mean()
    else:
        chosen = output.logits.log_softmax(-1)[torch.arange(len(batch.targets)), batch.targets]
        expected = -chosen.mean()
    torch.testing.assert_close(output.loss, expected)


def test_hybrid_models_keep_their_head_and_predict_labels_from_the_position_before(
    make_learner, export
):
    learner, batch = make_learner("hybrid", "bert_tiny", pre_norm=True, weighted_residuals=True)
    model = AutoModelForMaskedLM.from_pretrained(export(learner)[1], trust_remote_code=True)
    ids, states = batch.inputs.tokens[:2], learner.encoder(Inputs(batch.inputs.tokens[:2])).states
    labels = torch.full_like(ids, -100)
    labels[0, 2], labels[1, 1] = 7, 8
    logits = learner.task.head(states[[0, 1], [1, 0]], learner.encoder.token_embedding.weight)
    expected = -logits.log_softmax(-1)[[0, 1], [7, 8]].mean()
    torch.testing.assert_close(model(ids, labels=labels).loss, expected)


def test_loss_of_replaced_tokens_leaves_padding_out(make_learner):
    model = to_huggingface(make_learner("rtd", "bert_tiny")[0])
    ids, mask = torch.randint(9, (2, 6)), torch.ones(2, 6, dtype=torch.int64)
    mask[1, 4:] = 0
    labels = torch.randint(2, (2, 6)).masked_fill(mask == 0, -100)
    output = model(ids, attention_mask=mask, labels=labels)
    signs = (2 * labels - 1)[mask == 1]
    expected = -torch.nn.functional.logsigmoid(signs * output.logits[mask == 1]).mean()
    torch.testing.assert_close(output.loss, expected)
    whole = model(ids, labels=labels.clamp(min=0)).loss
    torch.testing.assert_close(
        model(ids, attention_mask=torch.ones_like(ids), labels=labels.clamp(min=0)).loss, whole
    )


def test_language_models_reject_padding_on_the_left(make_learner):
    model = to_huggingface(make_learner("language_modeling", "transformer_lm_tiny")[0])
    with pytest.raises(ValueError, match=r"Padding must be on the right: positions are counted"):
        model(torch.ones(1, 3, dtype=torch.int64), attention_mask=torch.tensor([[0, 1, 1]]))


@pytest.fixture
def plugin_export(data, export, tmp_path):
    """The export of a plugin's model, which the process then forgets."""

    def make(name):
        folder = tmp_path / f"{name}_plugin"
        folder.mkdir()
        (folder / "scaled.py").write_text(PLUGIN.format(name=name))
        (folder / "scales.py").write_text("SCALE = 3.0\n")
        load_folder(str(folder))
        learner = build_model(name, tokenizer=DataFolder.open(data).tokenizer, task="mlm").eval()
        return learner, export(learner)[1]

    return make


def forget(name, monkeypatch):
    monkeypatch.delitem(ARCHITECTURES._entries, name)


def test_plugins_travel_with_exports_and_run_only_if_trusted(plugin_export, tmp_path, monkeypatch):
    learner, folder = plugin_export("travelling_bert")
    tokens = torch.tensor([[5, 6, 7]])
    expected = to_huggingface(learner)(input_ids=tokens).logits
    forget("travelling_bert", monkeypatch)
    with pytest.raises(ToolkitError, match=r"'travelling_bert_plugin'.*trust_remote_code=True"):
        AutoModelForMaskedLM.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder, trust_remote_code=True)
    assert torch.equal(model(input_ids=tokens).logits, expected)
    model.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "scales.py").read_text() == "SCALE = 3.0\n"


def test_a_plugins_export_needs_its_folder_to_come_back(
    plugin_export, tmp_path, monkeypatch, capsys
):
    _, folder = plugin_export("absent_bert")
    monkeypatch.setattr("toolkit.common.plugins._loaded", {})
    assert main(["import", str(folder), str(tmp_path / "back")]) == 2
    said = capsys.readouterr().err
    assert "requires the plugin 'absent_bert_plugin', which is not loaded" in said
    assert "Pass its folder with --user-dir." in said
    assert not (tmp_path / "back").exists()


def test_folders_say_what_to_install(make_learner, export, monkeypatch):
    learner, _ = make_learner("mlm", "composite_bert_tiny")
    code = (export(learner)[1] / "modeling_toolkit.py").read_text()
    monkeypatch.setitem(sys.modules, "toolkit", None)
    monkeypatch.setitem(sys.modules, "toolkit.huggingface", None)
    with pytest.raises(ImportError, match=r"pip install 'toolkit-seq\[hf\]'"):
        exec(code, {})


def test_the_package_says_that_transformers_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "toolkit.huggingface")
    with pytest.raises(ToolkitError, match=r"requires Transformers. Install .*toolkit-seq\[hf\]"):
        importlib.import_module("toolkit.huggingface")
    monkeypatch.undo()


def test_heads_of_other_tasks_are_ignored_by_the_encoder(make_learner, export):
    learner, _ = make_learner("glue", "taco_tiny")
    model = AutoModel.from_pretrained(export(learner)[1])
    assert model.state_dict().keys() == {f"encoder.{name}" for name in learner.encoder.state_dict()}
