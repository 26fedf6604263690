"""Fault 21: nothing is ever unpickled, so there is no unsafe fallback."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from toolkit import load_checkpoint
from toolkit.common.errors import ToolkitError
from toolkit.training.run import run

ROOT = Path(__file__).resolve().parents[2]
FILES = [f for folder in ("toolkit", "scripts", "examples") for f in ROOT.glob(f"{folder}/**/*.py")]
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
MODULES |= {"hickle", "jsonpickle", "torch.package"}
CALLS = re.compile(
    r"(torch\.(load|hub\.\w+|jit\.load)|torch\.storage\._load_from_bytes|(np|numpy)\.(load|loadtxt)"
    r"|yaml\.(load_all|unsafe_load|full_load|unsafe_load_all|full_load_all)|eval|exec|compile"
    r"|os\.(system|popen)|dist\.\w*object\w*|hydra\.\w+(\.\w+)*|\w+\.instantiate)"
)
TORCH_FILES = ROOT / "toolkit" / "conversion" / "files.py"
"""Reads files of other programs; its only torch.load must be weights_only."""
WEIGHTS_ONLY = re.compile(r"torch\.load\(file, map_location='cpu', weights_only=True\)")
LOADERS = {"PlainLoader", "yaml.SafeLoader", "yaml.CSafeLoader"}


def names_of(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module or ""


@pytest.mark.slow
def test_sources_use_no_loader_that_executes_code():
    assert len(FILES) > 100
    for file in FILES:
        tree = ast.parse(file.read_text("utf-8"))
        assert not {n for n in names_of(tree) if n in MODULES or n.split(".")[0] in MODULES}, file
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                if file == TORCH_FILES and WEIGHTS_ONLY.fullmatch(ast.unparse(node)):
                    continue
                assert not CALLS.fullmatch(ast.unparse(node.func)), f"{file}:{node.lineno}"
                assert not {k.arg for k in node.keywords} & {"weights_only", "allow_pickle"}, file
                if ast.unparse(node.func) == "yaml.load":
                    assert ast.unparse(node.args[1]) in LOADERS, f"{file}:{node.lineno}"
                if ast.unparse(node.func) == "subprocess.run":
                    assert not any(k.arg == "shell" for k in node.keywords), file


@pytest.fixture
def unpickled(finished, monkeypatch):
    """The calls of all unpicklers, each of which fails; everything is imported before."""
    calls = []

    class Unpickler(pickle.Unpickler):
        def load(self):
            calls.append("pickle.Unpickler")
            raise AssertionError("pickle.Unpickler was used")

    def refuse(name):
        def call(*arguments, **options):
            calls.append(name)
            raise AssertionError(f"{name} was called")

        return call

    monkeypatch.setattr(pickle, "load", refuse("pickle.load"))
    monkeypatch.setattr(pickle, "loads", refuse("pickle.loads"))
    monkeypatch.setattr(pickle, "Unpickler", Unpickler)
    monkeypatch.setattr(torch, "load", refuse("torch.load"))
    monkeypatch.setattr(np, "load", refuse("numpy.load"))
    monkeypatch.setattr(yaml, "unsafe_load", refuse("yaml.unsafe_load"))
    return calls


@pytest.mark.slow
def test_training_resuming_and_inference_unpickle_nothing(config, unpickled):
    run(config(max_update=2))
    run(config(max_update=3))
    learner = load_checkpoint(config().checkpoint.save_dir)
    assert learner.fill_mask("the [MASK] sat", top=1) and not unpickled


def test_unreadable_checkpoint_has_no_fallback_reader(trained, unpickled):
    for file in sorted((trained / "checkpoint_last").iterdir()):
        whole = file.read_bytes()
        file.write_bytes(b"\x80\x04K\x01." + whole[5:])
        with pytest.raises(ToolkitError):
            load_checkpoint(trained / "checkpoint_last")
        file.write_bytes(whole)
    assert not unpickled
