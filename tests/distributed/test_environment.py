import torch

from toolkit.distributed import environment
from toolkit.distributed.environment import describe_environment


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
