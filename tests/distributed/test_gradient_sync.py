import pytest
import torch
from torch import nn

from toolkit.distributed import GradientSync, wrap_data_parallel


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
