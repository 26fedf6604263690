import pytest

LR, DECAY = 0.05, 0.1


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_equals_its_formula(largest_difference, momentum, nesterov):
    nesterov = nesterov and momentum > 0

    def loop(p, gradients, name):
        b, decay = 0.0, 0.0 if name.endswith("bias") else DECAY
        for g in gradients:
            g = g + decay * p
            b = momentum * b + g
            p = p - LR * (g + momentum * b if nesterov else b)
        return p

    options = {"lr": LR, "weight_decay": DECAY, "momentum": momentum, "nesterov": nesterov}
    assert largest_difference("sgd", loop, **options) < 1e-6


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rmsprop_equals_its_formula(largest_difference, momentum, centered):
    a, eps = 0.9, 1e-3

    def loop(p, gradients, name):
        b, v, m, decay = 0.0, 0.0, 0.0, 0.0 if name.endswith("bias") else DECAY
        for g in gradients:
            g = g + decay * p
            v, m = a * v + (1 - a) * g * g, a * m + (1 - a) * g
            b = momentum * b + g / ((v - centered * m * m).sqrt() + eps)
            p = p - LR * b
        return p

    options = {"alpha": a, "eps": eps, "momentum": momentum, "centered": centered}
    options |= {"lr": LR, "weight_decay": DECAY}
    assert largest_difference("rmsprop", loop, **options) < 1e-6
