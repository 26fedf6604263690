import importlib

import pytest
import torch

from toolkit.nn.ops import compilation


def multiply(x):
    return 3 * x


@pytest.fixture(params=["private", "public"])
def compile_disabled(request, monkeypatch):
    """The decorator with torch's private function, and as in a version of torch without it."""
    with monkeypatch.context() as patch:
        if request.param == "public":
            patch.delattr("torch._compile._disable_dynamo")
        yield importlib.reload(compilation).compile_disabled
    importlib.reload(compilation)


def test_disabled_functions_are_not_part_of_compiled_graphs(compile_disabled):
    disabled, graphs = compile_disabled(multiply), []

    def backend(graph, inputs):
        graphs.append([str(node.target) for node in graph.graph.nodes])
        return graph.forward

    def function(x):
        return disabled(x + 1) + 2

    torch._dynamo.reset()
    x = torch.ones(2)
    assert torch.equal(torch.compile(function, backend=backend)(x), 3 * (x + 1) + 2)
    assert len(graphs) == 2 and not any("mul" in name for names in graphs for name in names)
    assert disabled.__name__ == "multiply" and torch.equal(disabled(x), 3 * x)
