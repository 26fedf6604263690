import math

import torch

from toolkit.nn.sinusoidal import sinusoidal_encodings

CPU = torch.device("cpu")


def test_positions_are_waves_of_growing_length():
    waves = sinusoidal_encodings(0, 700, 6, CPU)
    for p, c in [(0, 0), (1, 0), (5, 1), (699, 2)]:
        angle = p / 10_000 ** (2 * c / 6)
        assert math.isclose(waves[p, c], math.sin(angle), abs_tol=1e-6)
        assert math.isclose(waves[p, 3 + c], math.cos(angle), abs_tol=1e-6)


def test_places_from_the_middle_on_have_the_waves_they_have_among_all():
    assert torch.equal(
        sinusoidal_encodings(600, 603, 8, CPU), sinusoidal_encodings(0, 2000, 8, CPU)[600:603]
    )


def test_an_odd_width_ends_without_its_cosine():
    assert sinusoidal_encodings(0, 4, 5, CPU).shape == (4, 5)


def test_waves_made_in_inference_serve_training_afterwards():
    with torch.inference_mode():
        sinusoidal_encodings(0, 3, 10, CPU)
    x = torch.ones(3, 10, requires_grad=True)
    (x * sinusoidal_encodings(0, 3, 10, CPU)).sum().backward()
