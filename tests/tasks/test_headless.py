import pytest

from toolkit.common.errors import ToolkitError
from toolkit.training.run import run


def test_there_is_nothing_to_train_without_a_head(config):
    with pytest.raises(ToolkitError, match=r"Task encode has no head to train"):
        run(config(task="encode"))
