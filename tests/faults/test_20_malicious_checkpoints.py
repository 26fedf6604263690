"""Fault 20: checkpoints that would run code in a program that unpickles them. None of it runs here.

Each payload makes a file when something unpickles it; the first four are those that Composer tests.
"""

from __future__ import annotations

import argparse
import builtins
import io
import os
import pickle
from itertools import cycle

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from tests.helpers.signed_files import sign_files
from toolkit.checkpoints.save_folder import read_manifest
from toolkit.cli.generate import main as generate
from toolkit.cli.inspect import main as inspect
from toolkit.cli.train import main as train
from toolkit.cli.validate import main as validate


class Calling:
    """Calls a function with arguments when it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def zipped(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def old_style(content):
    """The format of torch before 1.6: pickles one after another."""
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=False)
    return buffer.getvalue()


def nested(harm):
    """torch's loader of tensors, which unpickles the bytes it is given."""
    return Calling(torch.storage._load_from_bytes, zipped(harm))


def of_fairseq(harm):
    """Arguments, weights and the optimizer's history, as fairseq has written them since 2018."""
    history = [{"num_updates": 3, "optimizer_name": "adam", "lr_scheduler_state": {"best": None}}]
    weights = {"encoder.embed_tokens.weight": torch.zeros(2, 2)}
    arguments = argparse.Namespace(arch="roberta_base", task="masked_lm", harm=harm)
    return {"args": arguments, "cfg": None, "model": weights, "optimizer_history": history}


def payload(name, marker):
    shell, write = Calling(os.system, f"touch {marker}"), f"open({str(marker)!r}, 'w').close()"
    config = OmegaConf.create({"a": 1})
    return {
        "os.system in the model": {"state": {"model": {"weight": shell}}},
        "os.system in the state to go on from": {"rng": [shell], "state": {"timestamp": shell}},
        "eval": {"state": Calling(builtins.eval, write)},
        "bytes to unpickle": nested(shell),
        "NumPy": {"rng": np.random.RandomState(0).get_state(), "x": np.array([shell], object)},
        "OmegaConf": {"cfg": config, "x": Calling(builtins.exec, write)},
        "fairseq": of_fairseq(shell),
    }[name]


PAYLOADS = ["os.system in the model", "os.system in the state to go on from", "eval"]
PAYLOADS += ["bytes to unpickle", "NumPy", "OmegaConf", "fairseq"]
FORMS = {"zip": zipped, "before torch 1.6": old_style, "pickle": pickle.dumps}


def commands(data, path, folder):
    """Every command that reads a checkpoint, with its words."""
    small = [str(data), "--arch", "composite_bert_tiny", "--task", "mlm", "--max-update", "1"]
    small += ["--save-dir", str(folder / "new"), "--num-workers", "0"]
    return [
        (validate, [str(data), "--path", str(path)]),
        (generate, ["--task", "mlm", "--path", str(path), "--input", os.devnull]),
        (inspect, [str(path)]),
        (train, [*small, "--restore-file", str(path)]),
        (train, [*small, "--finetune-from", str(path)]),
    ]


@pytest.fixture
def marker(tmp_path):
    return tmp_path / "executed"


@pytest.mark.parametrize("name", PAYLOADS)
def test_payload_runs_if_it_is_unpickled(name, marker):
    pickle.loads(pickle.dumps(payload(name, marker)))
    assert marker.exists(), "a test with a harmless payload shows nothing"


@pytest.mark.parametrize(("name", "form"), [*zip(PAYLOADS, cycle(FORMS), strict=False)])
def test_pickled_file_is_rejected_unread_by_every_command(
    data, tmp_path, marker, capsys, name, form
):
    file = tmp_path / "checkpoint_best.pt"
    file.write_bytes(FORMS[form](payload(name, marker)))
    for main, words in commands(data, file, tmp_path):
        assert main(words) == 2
        stderr = capsys.readouterr().err
        assert "checkpoint_best.pt" in stderr and "Traceback" not in stderr
    assert not marker.exists()


@pytest.mark.slow
def test_pickle_in_a_forged_checkpoint_is_rejected_or_unread(
    data, trained, tmp_path, marker, capsys
):
    folder = (trained / "checkpoint_last").resolve()
    payloads = zip(cycle(PAYLOADS), cycle(FORMS.values()), strict=False)
    for file, (name, form) in zip(read_manifest(folder).files, payloads, strict=False):
        kept = (folder / file).read_bytes()
        (folder / file).write_bytes(form(payload(name, marker)))
        sign_files(folder, file)
        use, *_, go_on, _ = commands(data, folder, tmp_path)
        assert use[0](use[1]) in (0, 2) and go_on[0](go_on[1]) == 2
        assert "Traceback" not in capsys.readouterr().err
        (folder / file).write_bytes(kept)
        sign_files(folder, file)
    assert not marker.exists()
