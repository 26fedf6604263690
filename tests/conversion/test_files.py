from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from toolkit import load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.conversion.files import read_all_tensors
from toolkit.conversion.native_classes import read_model
from toolkit.conversion.tensors import Mismatch, compare_tensors, compare_tied


def changed(folder, change):
    """Rewrites the tensors of a folder as `change` makes them."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})


def weights(checkpoint):
    return load_checkpoint(checkpoint).state_dict()


def same(one, other):
    assert one.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_import_of_a_pickle_gives_the_same_model(saved, converted):
    _, folder = saved("BertForMaskedLM")
    before = weights(converted(folder, name="before"))
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    same(before, weights(converted(folder, name="after")))


def test_import_handles_old_names_buffers_and_tied_copies(saved, converted):
    _, folder = saved("BertForMaskedLM")
    before = weights(converted(folder, name="before"))

    def as_in_2019(tensors):
        for name in [n for n in tensors if "LayerNorm" in n]:
            new = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[new.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(name)
        tensors["bert.embeddings.position_ids"] = torch.arange(16)[None]
        words = tensors["bert.embeddings.word_embeddings.weight"]
        tensors["cls.predictions.decoder.weight"] = words.clone()

    changed(folder, as_in_2019)
    same(before, weights(converted(folder, name="after")))


def test_import_of_sharded_files_gives_the_same_model(saved, converted):
    _, folder = saved("BertModel")
    before = weights(converted(folder, name="before"))
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    for file, part in (("a.safetensors", names[::2]), ("b.safetensors", names[1::2])):
        save_file({name: tensors[name] for name in part}, folder / file)
    files = {n: "a.safetensors" if n in names[::2] else "b.safetensors" for n in names}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": files}))
    same(before, weights(converted(folder, name="after")))
    for names in ({"w": "../secret.safetensors"}, {"w": 3}, []):
        index.write_text(json.dumps({"weight_map": names}))
        with pytest.raises(ToolkitError, match=r"index\.json: .*expected"):
            read_all_tensors(folder)


def spoiled(tensors):
    del tensors["encoder.layer.1.output.dense.bias"]
    tensors["encoder.layer.0.attention.self.query.weight"] = torch.ones(24, 23)
    tensors["encoder.layer.2.output.dense.bias"] = torch.ones(24)


def test_import_lists_missing_misshapen_and_extra_tensors(saved, converted, capsys):
    _, folder = saved("BertModel")
    changed(folder, spoiled)
    capsys.readouterr()
    with pytest.raises(ToolkitError, match=r"3 mismatches \(missing .*Nothing was written"):
        converted(folder)
    rows = [line.split() for line in capsys.readouterr().err.splitlines()[1:]]
    query = "encoder.layer.0.attention.self.query.weight"
    file = "model.safetensors:"
    assert rows == [
        ["missing", "tensor", file, "encoder.layer.1.output.dense.bias", "-", "24"],
        ["misshapen", "tensor", file, query, "24", "x", "23", "24", "x", "24"],
        ["extra", "tensor", file, "encoder.layer.2.output.dense.bias", "24", "-"],
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["hf"]


def test_import_rejects_untied_copies(saved, converted, capsys):
    _, folder = saved("ElectraForMaskedLM", embedding_size=12)
    changed(
        folder, lambda tensors: tensors.update({"generator_lm_head.weight": torch.ones(21, 12)})
    )
    with pytest.raises(ToolkitError, match=r"1 mismatch \(untied tensor\)"):
        converted(folder)
    assert "as embeddings.word_embeddings.weight" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "row"),
    [
        ({"hidden_act": "relu"}, "config.json: hidden_act relu gelu"),
        ({"is_decoder": True}, "config.json: is_decoder True False"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers 1000000000 tensors of"),
        ({"hidden_size": "24"}, "config.json: hidden_size '24' int"),
        ({"type_vocab_size": 0}, "config.json: type_vocab_size 0"),
        ({"hidden_size": 10**9}, "config.json: hidden_size 1000000000 int"),
    ],
)
def test_import_rejects_unsupported_settings(saved, converted, capsys, settings, row):
    _, folder = saved("BertModel")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **settings}))
    with pytest.raises(ToolkitError, match=r"mismatch.*setting.*Nothing was written"):
        converted(folder)
    assert row in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", r"config\.json: expected object, found array"),
        ('{"model_type": "gpt2"}', r"must be one of bert, .*, gpt_bert, but is 'gpt2'"),
        ('{"model_type": "deberta"}', r"computes the second version, model_type deberta-v2"),
        ("{}", r"must be one of bert, .*, gpt_bert, but is None"),
    ],
)
def test_import_rejects_a_config_of_another_model(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ToolkitError, match=message):
        read_model(tmp_path)


def test_import_rejects_other_folders(tmp_path):
    with pytest.raises(ToolkitError, match=r"SOURCE must be a folder .* has no config.json"):
        read_model(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(
        ToolkitError, match=r"is a checkpoint of the toolkit; for that use toolkit-convert export"
    ):
        read_model(tmp_path)


def test_half_precision_weights_stay_as_they_are(data, tmp_path, saved, converted):
    from safetensors.torch import load_file

    model, folder = saved("BertModel")
    model.to(torch.bfloat16).save_pretrained(folder)
    checkpoint = converted(folder)
    assert load_checkpoint(checkpoint).encoder.token_embedding.weight.dtype == torch.float32
    back = converted(checkpoint, "hf")
    before, after = (load_file(path / "model.safetensors") for path in (folder, back))
    assert all(
        torch.equal(before[n], after[n]) and after[n].dtype == before[n].dtype for n in before
    )
    assert '"dtype": "bfloat16"' in (back / "config.json").read_text()


@pytest.mark.parametrize(
    ("tensor", "found"),
    [
        (torch.ones(2, dtype=torch.long), "int64"),
        (torch.ones(2).to(torch.float8_e4m3fn), "float8_e4m3fn"),
        (torch.tensor([1, torch.nan]), "NaN or infinity"),
    ],
)
def test_tensors_that_are_no_finite_weights_are_mismatches(tensor, found):
    [problem] = compare_tensors({"a": tensor}, {"a": (2,)}, "x")
    assert (problem.kind, problem.found) == ("unusable tensor", found)
    assert compare_tensors({"a": torch.ones(2, dtype=torch.float16)}, {"a": (2,)}, "x") == []


def test_tied_tensors_of_another_type_are_not_equal():
    one, tied = torch.ones(2), {"copy": "w"}
    assert compare_tied({"copy": one.clone()}, tied, {"w": one}, "x") == []
    for copy, tensors in (
        (one.to(torch.float8_e4m3fn), {"w": one}),
        (one, {}),
        (one + 1, {"w": one}),
    ):
        found = compare_tied({"copy": copy}, tied, tensors, "x")
        assert found == [Mismatch("untied tensor", "x: copy", "others", "as w")]
