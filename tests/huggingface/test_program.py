"""Graphs of models by torch.export, and ONNX Runtime's outputs."""

import jaxtyping
import pytest
import torch

from toolkit import build_model
from toolkit.common.errors import ToolkitError
from toolkit.conversion import convert
from toolkit.huggingface import program, to_huggingface
from toolkit.huggingface.program import Graph, example_inputs, export_program, resolve_shape
from toolkit.models.interface import Inputs

CASES = [
    ("mlm", "deberta_tiny"),
    ("mlm", "taco_tiny"),
    ("squad", "composite_bert_tiny"),
    ("multiple_choice", "convbert_tiny"),
    ("pos_tagging", "conv_san_ud"),
    ("language_modeling", "transformer_lm_tiny"),
]


@pytest.fixture(autouse=True)
def without_shape_checks():
    """A graph's sizes are symbols, which annotations of plain numbers reject."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def version(package):
    return tuple(int(part) for part in package.__version__.split(".")[:2])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "arch"), CASES)
def test_onnx_runtime_computes_the_outputs_of_the_model(make_learner, tmp_path, kind, arch):
    runtime = pytest.importorskip("onnxruntime")
    layers = {} if kind == "language_modeling" else {"layers": 1}
    model = to_huggingface(make_learner(kind, arch, **layers)[0])
    shape = resolve_shape(model)
    program.write_graph(tmp_path / "model.onnx", model, shape)
    if version(runtime) < (1, 24) and arch.startswith("transformer"):
        with pytest.raises(ToolkitError, match=r"cannot run this graph: .* Cos\(7\)"):
            program.compare_outputs(tmp_path / "model.onnx", model, shape)
        return
    assert 0 < program.compare_outputs(tmp_path / "model.onnx", model, shape) < program.TOLERANCE


@pytest.mark.slow
def test_onnx_runtime_computes_a_translation_of_fixed_lengths(make_learner, tmp_path):
    pytest.importorskip("onnxruntime")
    model = to_huggingface(make_learner("translation", "lightconv")[0])
    shape = resolve_shape(model, batch=2, length=7)
    program.write_graph(tmp_path / "model.onnx", model, shape)
    assert 0 < program.compare_outputs(tmp_path / "model.onnx", model, shape) < program.TOLERANCE


@pytest.mark.slow
def test_graph_of_a_translation_reads_padding_and_other_lengths_than_its_example(make_learner):
    model = to_huggingface(make_learner("translation", "lightconv")[0])
    tokens, mask = example_inputs(model, resolve_shape(model), rows=5, seed=3).values()
    [states] = export_program(model).module()(tokens, mask)
    with torch.no_grad():
        expected = model.encoder.eval()(Inputs(tokens, padding=mask == 0)).states
    torch.testing.assert_close(states, expected)


@pytest.mark.parametrize("name", ["t5", "deberta"])
def test_terms_by_bucket_are_the_same_if_lengths_are_symbols(monkeypatch, name):
    encoder = build_model("bert_tiny", vocabulary_size=20, positions=[name], layers=1).eval()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    tokens = torch.randint(20, (1, 300))
    with torch.no_grad():
        want = encoder(tokens).states
        monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
        torch.testing.assert_close(encoder(tokens).states, want, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_graph_of_a_fixed_shape_computes_the_outputs_of_the_model(make_learner):
    model = to_huggingface(make_learner("mlm", "taco_tiny", layers=1)[0])
    shape = resolve_shape(model, batch=2, length=9)
    inputs = tuple(example_inputs(model, shape, rows=5, seed=3).values())
    assert inputs[0].shape == (2, 9)
    [logits] = export_program(model, shape).module()(*inputs)
    torch.testing.assert_close(logits, Graph(model)(*inputs)[0])


def test_examples_fit_a_model_with_few_positions(make_learner):
    model = to_huggingface(make_learner("mlm", "bert_tiny", layers=1, max_positions=16)[0])
    examples = [example_inputs(model, resolve_shape(model), rows) for rows in (1, 3, 5)]
    assert [it["input_ids"].shape[1] for it in examples] == [1, 16, 14]


def test_length_beyond_the_model_is_a_user_error(make_learner):
    model = to_huggingface(make_learner("mlm", "bert_tiny")[0])
    with pytest.raises(ToolkitError, match=r"--length must be at most 64, .* but is 65"):
        resolve_shape(model, length=65)
    tagger = to_huggingface(make_learner("pos_tagging", "conv_san_ud")[0])
    with pytest.raises(ToolkitError, match=r"--length must be 12, .* but is 13"):
        resolve_shape(tagger, length=13)


@pytest.mark.slow
def test_differing_outputs_are_an_error(make_learner, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    model = to_huggingface(make_learner("mlm", "bert_tiny", layers=1)[0])
    shape = resolve_shape(model, batch=1, length=4)
    program.write_graph(tmp_path / "model.onnx", model, shape)
    with torch.no_grad():
        model.encoder.token_embedding.weight.add_(0.1)
    with pytest.raises(ToolkitError, match=r"differ from PyTorch's by 0\..* Nothing was written"):
        program.compare_outputs(tmp_path / "model.onnx", model, shape)


def test_missing_packages_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(convert, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(ToolkitError, match=r"requires onnxscript. Install with: pip install"):
        convert.export_graph(tmp_path / "run", tmp_path / "graph.onnx")
