import pytest
import torch

from toolkit import load_checkpoint
from toolkit.checkpoints.load import EXTRA_FILE, read_config
from toolkit.checkpoints.new_folder import check_new_folder
from toolkit.checkpoints.tensor_files import read_tensors
from toolkit.common.errors import ToolkitError
from toolkit.conversion.write_checkpoint import (
    ConvertedModel,
    build_on_meta,
    compose_run,
    write_checkpoint,
)
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Sizes


def test_build_on_meta_has_names_and_shapes_but_no_memory():
    learner = build_on_meta(compose_run("bert_tiny", "mlm", {"layers": 1}), Sizes(tokens=10**9))
    tensors = learner.state_dict()
    assert tensors["encoder.embeddings.words.weight"].is_meta
    assert tensors["task.head.bias"].shape == (10**9,)


def test_projects_embeddings_if_they_are_narrower_than_the_model():
    assert compose_run("bert_tiny", "mlm", {}).arch.config.projects_embeddings
    assert not compose_run("bert", "mlm", {}).arch.config.projects_embeddings
    assert not compose_run("bert", "mlm", {"embedding_width": 768}).arch.config.projects_embeddings


def test_write_checkpoint_writes_a_loadable_checkpoint(data, tmp_path):
    tokenizer = Tokenizer.load(data)
    run = compose_run("bert_tiny", "encode", {"layers": 1, "width": 8})
    sizes = Sizes(tokens=len(tokenizer.vocabulary))
    shapes = {name: tensor.shape for name, tensor in build_on_meta(run, sizes).state_dict().items()}
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    extra = {"task.pooler.weight": torch.ones(2, dtype=torch.bfloat16)}
    target = tmp_path / "target"
    write_checkpoint(
        target,
        ConvertedModel(run=run, sizes=sizes, tensors=tensors, tokenizer=tokenizer, extra=extra),
        tmp_path / "source",
    )
    found = load_checkpoint(target).state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors.items())
    assert read_tensors(target / EXTRA_FILE)["task.pooler.weight"].dtype == torch.bfloat16
    assert read_config(target)[0].arch.config == run.arch.config
    with pytest.raises(ToolkitError, match=r"DESTINATION must name a new folder"):
        check_new_folder(target, "DESTINATION")


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
