"""No code of a file is run, whatever it asks for."""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.conversion.files import load_torch_file, name_tensors


class Asks:
    """Becomes a call of any function when it is unpickled."""

    def __init__(self, function, *arguments):
        self.asked = function, arguments

    def __reduce__(self):
        return self.asked


class Made:
    """Becomes an object of any class, with any state."""

    def __init__(self, class_, arguments, state):
        self.asked = class_, arguments, state

    def __reduce__(self):
        return self.asked


def attacks(mark):
    touch = f"open({str(mark)!r}, 'w').close()"
    system = Asks(os.system, f"touch {mark}")
    return {
        "os.system": system,
        "builtins.eval": Asks(eval, touch),
        "builtins.exec": Asks(exec, touch),
        "builtins.getattr": Asks(getattr, "text", "upper"),
        "torch.load": Asks(torch.load, str(mark)),
        "in settings": argparse.Namespace(arch="roberta", more=system),
        "in tensors": {"w": torch.ones(2), "v": Asks(eval, touch)},
        "as a state": Made(argparse.Namespace, (), {"heads": system}),
        "as an argument": Made(argparse.Namespace, (Asks(eval, touch),), {}),
        "deep": {"a": [{"b": ({"c": Asks(exec, touch)},)}]},
    }


@pytest.mark.parametrize("name", attacks("x"))
def test_a_malicious_pickle_is_rejected_and_runs_nothing(tmp_path, name):
    mark, path = tmp_path / "mark", tmp_path / "model.pt"
    whole = {"model": {"w": torch.ones(2)}, "args": attacks(mark)[name]}
    for zipped, settings in ((True, True), (True, False), (False, True)):
        torch.save(whole, path, _use_new_zipfile_serialization=zipped)
        with pytest.raises(ToolkitError, match=r"weights-only loader says: .*Nothing was executed"):
            load_torch_file(path, settings=settings)
    assert not mark.exists()


def test_the_malicious_pickles_run_code_if_unpickled(tmp_path):
    mark = tmp_path / "mark"
    for name in ("builtins.eval", "as an argument", "in settings", "deep"):
        with contextlib.suppress(TypeError):
            pickle.loads(pickle.dumps(attacks(mark)[name]))
        assert mark.exists(), name
        mark.unlink()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04"])
def test_a_damaged_file_is_rejected(tmp_path, content):
    (tmp_path / "model.pt").write_bytes(content)
    with pytest.raises(ToolkitError, match="must contain only tensors and settings"):
        load_torch_file(tmp_path / "model.pt")


def test_a_pipe_is_rejected(tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    with pytest.raises(ToolkitError, match="must be a regular file"):
        load_torch_file(tmp_path / "pipe.pt")


TABLE = torch.arange(12.0).view(3, 4)
OTHER_TENSORS = {
    "sparse": lambda: TABLE.to_sparse(),
    "quantized": lambda: torch.quantize_per_tensor(TABLE, 0.1, 0, torch.qint8),
    "nested": lambda: torch.nested.nested_tensor([TABLE[:1], TABLE]),
    "meta": lambda: TABLE.to("meta"),
    "complex": lambda: TABLE.to(torch.complex64),
    "no tensor": lambda: [1.0],
}


@pytest.mark.filterwarnings("ignore")  # torch's about kinds that are in beta or deprecated
@pytest.mark.parametrize("name", OTHER_TENSORS)
def test_tensors_of_other_kinds_are_rejected(tmp_path, name):
    path = tmp_path / "model.pt"
    torch.save({"w": TABLE, "v": OTHER_TENSORS[name]()}, path)
    with pytest.raises(ToolkitError, match=r"must contain dense tensors by name, .*\('v'\)"):
        name_tensors(load_torch_file(path), path)


def test_tensors_larger_than_the_file_are_rejected(tmp_path):
    path, storage = tmp_path / "model.pt", torch.zeros(1 << 14)
    for tensors in (
        {"w": torch.zeros(1).expand(1 << 40, 8)},
        {f"w{n}": storage[n:] for n in range(100)},
    ):
        torch.save(tensors, path)
        with pytest.raises(ToolkitError, match=r"but has [\d,]+ bytes and tensors of [\d,]+ bytes"):
            name_tensors(load_torch_file(path), path)


def test_tied_tensors_become_separate_ones(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"w": TABLE, "v": TABLE, "part": TABLE[1:]}, path)
    found = name_tensors(load_torch_file(path), path)
    assert torch.equal(found["w"], TABLE) and torch.equal(found["v"], TABLE)
    assert torch.equal(found["part"], TABLE[1:])
    assert len({tensor.untyped_storage().data_ptr() for tensor in found.values()}) == 3
