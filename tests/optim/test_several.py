import torch

from toolkit.optim.muon import ChainedOptimizer


def test_several_optimizers_step_as_one_with_their_own_rates():
    p, q = (torch.nn.Parameter(torch.ones(1)) for _ in range(2))
    both = ChainedOptimizer(
        [torch.optim.SGD([p], lr=0.1), torch.optim.SGD([q], lr=0.2, momentum=0.9)]
    )
    assert [group["lr"] for group in both.param_groups] == [0.1, 0.2]
    for group in both.param_groups:
        group["lr"] *= 2
    p.grad = q.grad = torch.ones(1)
    both.step()
    assert torch.allclose(torch.cat([p, q]), torch.tensor([0.8, 0.6]))
    both.zero_grad()
    assert p.grad is None and q.grad is None


def test_state_given_to_the_whole_is_that_of_its_parts():
    p = torch.nn.Parameter(torch.ones(1))
    both = ChainedOptimizer([torch.optim.SGD([p], lr=1.0, momentum=0.5)])
    both.state[p] = {"momentum_buffer": torch.tensor([4.0])}
    p.grad = torch.ones(1)
    both.step()
    assert float(p.detach()) == 1 - (0.5 * 4 + 1) and float(both.state[p]["momentum_buffer"]) == 3
