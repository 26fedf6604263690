import pytest

from toolkit.common.errors import ToolkitError
from toolkit.training.run import run


def test_there_is_nothing_to_train_without_a_head(config):
    with pytest.raises(ToolkitError, match=r"encode is an encoder without a head. Train one: name"):
        run(config(task="encode"))
