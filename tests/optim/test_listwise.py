import torch

from toolkit.optim.listwise import Listwise, numbers, those


class Recorder(Listwise):
    """Takes down what moves together."""

    def __init__(self, groups):
        super().__init__(groups, lr=1.0)
        self.moved = []

    def kind(self, p):
        return p.dim()

    def begin(self, p):
        return {"sum": torch.zeros_like(p)}

    def move(self, group, p, g, states):
        torch._foreach_add_(those(states, "sum"), g)
        self.moved.append((group["name"], [tuple(x.shape) for x in p], numbers(states)))


def parameter(*shape):
    p = torch.nn.Parameter(torch.zeros(shape))
    p.grad = torch.ones(shape)
    return p


def test_parameters_of_one_group_and_kind_move_together():
    optimizer = Recorder(
        [
            {"params": [parameter(2), parameter(2, 3), parameter(4)], "name": "a"},
            {"params": [parameter(5)], "name": "b"},
        ]
    )
    optimizer.step()
    assert optimizer.moved == [
        ("a", [(2,), (4,)], [1, 1]), ("a", [(2, 3)], [1]), ("b", [(5,)], [1])
    ]  # fmt: skip


def test_a_parameter_without_gradient_waits_and_counts_its_own_updates():
    early, late = parameter(2), parameter(2)
    late.grad = None
    optimizer = Recorder([{"params": [early, late], "name": "a"}])
    optimizer.step()
    assert optimizer.state[late] == {}
    late.grad = torch.ones(2)
    optimizer.step()
    assert optimizer.moved[-1] == ("a", [(2,), (2,)], [2, 1])
    assert float(optimizer.state[early]["sum"][0]) == 2
