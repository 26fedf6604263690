import torch


def test_world_sums_gathers_and_broadcasts(ranks):
    def exchange(world):
        summed = world.all_reduce(torch.tensor([1.0, world.rank])).tolist()
        return (
            summed,
            world.all_gather("a" * world.rank + "é"),
            world.broadcast(f"from {world.rank}"),
        )

    assert ranks(exchange) == [([2.0, 1.0], ["é", "aé"], "from 0")] * 2
