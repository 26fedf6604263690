import pytest
import torch

from toolkit.nn.residual import Residual


@pytest.mark.parametrize("pre_norm", [False, True])
def test_residual_normalizes_before_or_after_the_sublayer(pre_norm):
    torch.manual_seed(0)
    residual, sublayer = Residual(6, 0.0, pre_norm=pre_norm), torch.nn.Linear(6, 6)
    x = torch.randn(2, 3, 6)
    torch.nn.init.normal_(residual.norm.weight)
    expected = x + sublayer(residual.norm(x)) if pre_norm else residual.norm(x + sublayer(x))
    torch.testing.assert_close(residual(x, sublayer(residual.pre_norm_input(x))), expected)


@pytest.mark.parametrize("pre_norm", [False, True])
def test_residual_drops_units_of_the_sublayer_in_training_only(pre_norm):
    residual, x = Residual(6, 0.5, pre_norm=pre_norm), torch.randn(2, 3, 6)
    assert not torch.equal(residual(x, x), residual.eval()(x, x))
