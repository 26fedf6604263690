import numpy as np
import pytest

from toolkit.common.arrays import derive_seed, mix, uniform


@pytest.mark.parametrize(
    ("seed", "first"),
    [(0, 0xE220A8397B1DCDAF), (1, 0x910A2DEC89025CC1), (0xDEADBEEF, 0x4ADFB90F68C9EB9B)],
)
def test_mix_of_one_part_is_the_first_output_of_splitmix64(seed, first):
    assert int(mix(seed)) == first


def test_mix_of_arrays_broadcasts_and_equals_that_of_their_elements():
    rows, columns = np.arange(3)[:, None], np.arange(4)
    whole = mix(7, rows, columns)
    assert whole.shape == (3, 4)
    assert all(whole[i, j] == mix(7, i, j) for i in range(3) for j in range(4))


def test_uniform_numbers_fill_0_to_1_evenly():
    numbers = uniform(mix(1, np.arange(100_000)))
    assert numbers.min() >= 0 and numbers.max() < 1
    counts, _ = np.histogram(numbers, 10, (0, 1))
    assert abs(counts - 10_000).max() < 400  # four standard deviations


def test_derive_seed_fits_torch():
    assert all(0 <= derive_seed(i, 3) < 2**63 for i in range(1000))
    assert derive_seed(1, 2) != derive_seed(2, 1)
