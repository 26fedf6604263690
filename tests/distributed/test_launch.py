import torch

from toolkit.distributed import launch


def test_launch_without_torchrun_is_one_process(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with launch("cpu") as world:
        assert (world.rank, world.size, world.is_main) == (0, 1, True)
        assert world.all_gather("a") == ["a"] and world.broadcast("b") == "b"
        assert world.all_reduce(torch.tensor([1.0, 2.0])).tolist() == [1, 2]
