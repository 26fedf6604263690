import pytest
from torch import nn

from toolkit.common.errors import ToolkitError
from toolkit.nn.init import memory_limit


def test_parameters_beyond_the_memory_of_the_machine_are_rejected(monkeypatch):
    monkeypatch.setattr("toolkit.nn.init.memory_bytes", lambda: 4 * 110)
    with memory_limit():
        nn.Linear(10, 10)
    nn.Linear(100, 100)  # after the block
    with pytest.raises(ToolkitError, match="must fit into memory, which has"), memory_limit():
        nn.Sequential(nn.Linear(10, 10), nn.Linear(10, 10))
