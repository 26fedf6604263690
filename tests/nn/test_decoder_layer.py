import pytest
import torch

from toolkit.nn.decoder_layer import Residual


@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_norm_stands_before_or_behind_the_sublayer(pre_norm):
    torch.manual_seed(0)
    around, sublayer, x = (
        Residual(6, 0.0, pre_norm=pre_norm),
        torch.nn.Linear(6, 6),
        torch.randn(2, 3, 6),
    )
    torch.nn.init.normal_(around.norm.weight)
    want = x + sublayer(around.norm(x)) if pre_norm else around.norm(x + sublayer(x))
    torch.testing.assert_close(around(x, sublayer(around.pre_norm_input(x))), want)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_what_the_sublayer_adds_is_dropped_in_training_alone(pre_norm):
    around, x = Residual(6, 0.5, pre_norm=pre_norm), torch.randn(2, 3, 6)
    trained = around(x, x)
    assert not torch.equal(trained, around.eval()(x, x))
