import pytest

from toolkit.common.errors import ToolkitError
from toolkit.training.run import run


def test_encode_rejects_training_because_it_has_no_head(config):
    with pytest.raises(ToolkitError, match=r"Task encode has no head to train"):
        run(config(task="encode"))
