"""Ranks: devices, start, sums of gradients."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
from torch import nn
from torch.distributed import HashStore

from toolkit.common.errors import ToolkitError
from toolkit.distributed import GradientSync, environment, launch, wrap_data_parallel
from toolkit.distributed.environment import describe_environment
from toolkit.distributed.launch import ask_for_name, name_launch
from toolkit.distributed.world import configure_backend, select_device, set_tf32


def test_world_sums_gathers_and_broadcasts(ranks):
    def exchange(world):
        summed = world.all_reduce(torch.tensor([1.0, world.rank])).tolist()
        return (
            summed,
            world.all_gather("a" * world.rank + "é"),
            world.broadcast(f"from {world.rank}"),
        )

    assert ranks(exchange) == [([2.0, 1.0], ["é", "aé"], "from 0")] * 2


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


def test_environment_of_a_cpu_has_no_versions_of_cuda():
    found = describe_environment(torch.device("cpu"))
    assert found["device"].startswith("CPU (") and found["torch"] == torch.__version__
    assert found.keys() <= {"device", "toolkit", "torch", "triton"}


def test_environment_of_a_gpu_names_it_and_its_libraries(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91501)
    smi = "| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0 |"
    monkeypatch.setattr(environment.collect_env, "run", lambda command: (0, smi, ""))
    monkeypatch.setattr(environment.metadata, "version", {"triton": "3.6.0"}.__getitem__)
    assert describe_environment(torch.device("cuda", 0)) == {
        "device": "NVIDIA H200",
        "toolkit": environment.__version__,
        "torch": torch.__version__,
        "triton": "3.6.0",
        "driver": "580.65.06",
        "cuda": "13.0",
        "cudnn": "91501",
    }


def test_launch_without_torchrun_is_one_process(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with launch("cpu") as world:
        assert (world.rank, world.size, world.is_main) == (0, 1, True)
        assert world.all_gather("a") == ["a"] and world.broadcast("b") == "b"
        assert world.all_reduce(torch.tensor([1.0, 2.0])).tolist() == [1, 2]


TIMEOUT = timedelta(seconds=30)


def join(store, size):
    """The name that each rank of a launch learns."""
    with ThreadPoolExecutor(size) as pool:
        others = [pool.submit(ask_for_name, store, rank, TIMEOUT) for rank in range(1, size)]
        first = pool.submit(name_launch, store, size, TIMEOUT)
        return [each.result() for each in (first, *others)]


def test_all_ranks_learn_the_same_name():
    assert len(set(join(HashStore(), 4))) == 1


def test_restarted_ranks_learn_another_name_from_the_same_store():
    store = HashStore()
    names = [name for _ in range(5) for name in set(join(store, 3))]
    assert len(set(names)) == len(names) == 5


def test_requests_of_ranks_that_have_ended_are_answered_in_vain():
    store = HashStore()
    store.set("request 1", "of a rank that was killed before it got an answer")
    assert len(set(join(store, 2))) == 1


def test_missing_ranks_are_reported():
    with pytest.raises(ToolkitError, match=r"all 3 ranks must join, but 2 did not .* rank 1\."):
        name_launch(HashStore(), 3, timedelta(seconds=0))


def network():
    torch.manual_seed(0)
    layers = [nn.Linear(300, 300) for _ in range(4)]  # 1.4 MB: more than DDP's first bucket
    return nn.Sequential(*layers, nn.Linear(300, 1))


def backward(wrapped, exchange, rank):
    exchange.pending = []
    wrapped(torch.full((2, 300), rank + 1.0)).sum().backward()


def gradients(network):
    return [p.grad.clone() for p in network.parameters()]


def broken(place):
    def hook(gradient):
        raise torch.OutOfMemoryError("backward")

    return lambda layer: layer.weight.register_hook(hook)


@pytest.mark.slow
@pytest.mark.parametrize("layer", range(5))
def test_rank_that_fails_in_backward_does_not_block_the_other(ranks, layer):
    def train(world):
        plain = network()
        wrapped = wrap_data_parallel(plain, world)
        exchange = GradientSync(wrapped, world)
        backward(wrapped, exchange, world.rank)
        before = gradients(plain)
        plain.zero_grad()
        if world.rank == 1:
            hook = broken(layer)(plain[layer])
            with pytest.raises(torch.OutOfMemoryError):
                backward(wrapped, exchange, world.rank)
            hook.remove()
            exchange.complete_with_zeros()
        else:
            backward(wrapped, exchange, world.rank)
        plain.zero_grad()
        exchange.reset_reducer()
        for _ in range(3):
            plain.zero_grad()
            backward(wrapped, exchange, world.rank)
        return all(map(torch.equal, gradients(plain), before)), len(exchange.pending)

    (first, buckets), (second, _) = ranks(train)
    assert first and second and buckets >= 2
