"""The device of a process, for every kind of accelerator."""

from __future__ import annotations

import logging

import pytest
import torch

from toolkit.common.errors import ToolkitError
from toolkit.distributed.world import configure_backend, select_device, set_tf32


@pytest.fixture
def accelerator(monkeypatch):
    """Makes torch report some devices of a type, or none."""

    def pretend(kind, count=1):
        device = None if kind is None else torch.device(kind)
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: device is not None)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: device)
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)

    return pretend


@pytest.fixture
def backend_flags(monkeypatch):
    """Restores the flags of CUDA's backends."""
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    before = cuda.cudnn_sdp_enabled(), cudnn.benchmark, cudnn.deterministic
    owners = cuda.matmul, cudnn.conv, cudnn.rnn
    precisions = [owner.fp32_precision for owner in owners]
    yield
    cuda.enable_cudnn_sdp(before[0])
    cudnn.benchmark, cudnn.deterministic = before[1:]
    for owner, precision in zip(owners, precisions, strict=True):
        owner.fp32_precision = precision


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
@pytest.mark.parametrize("present", [None, "other"])
def test_a_missing_accelerator_is_reported_by_name(accelerator, kind, present):
    accelerator(present and ("xpu" if kind == "cuda" else "cuda"))
    with pytest.raises(ToolkitError, match=f"but is '{kind}' and torch finds no such device"):
        select_device(kind)


def test_auto_chooses_cuda_and_no_untested_accelerator(accelerator):
    for present, expected in ((None, "cpu"), ("cuda", "cuda"), ("mps", "cpu"), ("xpu", "cpu")):
        accelerator(present)
        assert select_device("auto").type == expected


def test_more_processes_than_devices_are_reported(accelerator):
    accelerator("cuda", count=2)
    assert select_device("cuda", local_rank=1).index == 1
    with pytest.raises(ToolkitError, match="LOCAL_RANK is 2 and there are 2"):
        select_device("cuda", local_rank=2)


def test_cuda_is_configured_for_changing_shapes_and_repeatable_convolutions(backend_flags):
    torch.backends.cuda.enable_cudnn_sdp(True)
    configure_backend(torch.device("cuda", 0))
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cudnn.deterministic and not torch.backends.cudnn.benchmark


def test_products_and_convolutions_use_tf32_alike(backend_flags):
    for enabled, mode in ((True, "tf32"), (False, "ieee")):
        set_tf32(enabled)
        assert torch.backends.cuda.matmul.fp32_precision == mode
        assert torch.backends.cudnn.conv.fp32_precision == mode
        assert torch.backends.cudnn.rnn.fp32_precision == mode


def test_an_untested_accelerator_is_announced(caplog):
    with caplog.at_level(logging.WARNING, "toolkit"):
        configure_backend(torch.device("mps"))
        configure_backend(torch.device("cpu"))
    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "No test of the toolkit has run on mps"
    ]
