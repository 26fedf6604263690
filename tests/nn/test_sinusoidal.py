import math

import torch

from toolkit.nn.sinusoidal import sinusoidal_encodings

CPU = torch.device("cpu")


def test_sinusoidal_encodings_follow_their_formula():
    encodings = sinusoidal_encodings(0, 700, 6, CPU)
    for p, c in [(0, 0), (1, 0), (5, 1), (699, 2)]:
        angle = p / 10_000 ** (2 * c / 6)
        assert math.isclose(encodings[p, c], math.sin(angle), abs_tol=1e-6)
        assert math.isclose(encodings[p, 3 + c], math.cos(angle), abs_tol=1e-6)


def test_sinusoidal_encodings_of_a_range_equal_those_of_all_positions():
    assert torch.equal(
        sinusoidal_encodings(600, 603, 8, CPU), sinusoidal_encodings(0, 2000, 8, CPU)[600:603]
    )


def test_sinusoidal_encodings_of_odd_width_omit_the_last_cosine():
    assert sinusoidal_encodings(0, 4, 5, CPU).shape == (4, 5)


def test_sinusoidal_encodings_cached_in_inference_work_in_training():
    with torch.inference_mode():
        sinusoidal_encodings(0, 3, 10, CPU)
    x = torch.ones(3, 10, requires_grad=True)
    (x * sinusoidal_encodings(0, 3, 10, CPU)).sum().backward()
