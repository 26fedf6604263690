from collections import Counter

import numpy as np
import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.folder import DataFolder
from toolkit.data.loader import Loader
from toolkit.tasks.masked import MaskedExamples, MaskingConfig


def use_every_item(path):
    """Open the folder and read all of its sentences as a validation would."""
    examples = MaskedExamples(
        MaskingConfig(), DataFolder.open(path), "train", seed=1, training=False, fixed_shapes=False
    )
    return list(Loader(examples, max_tokens=4096, batch_size=None, seed=1).evaluation())


@pytest.mark.slow
def test_200_of_200_flipped_bits_anywhere_in_a_folder_are_noticed(make_folder, random_prose):
    path = make_folder(random_prose(2000)).path
    files, draw, caught = sorted(path.iterdir()), np.random.default_rng(0), Counter()
    for number in range(200):
        file = files[number % len(files)]
        whole = file.read_bytes()
        damaged, bit = bytearray(whole), int(draw.integers(8 * len(whole)))
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        with pytest.raises(ToolkitError):
            use_every_item(path)
        caught[file.name] += 1
        file.write_bytes(whole)
    assert (sum(caught.values()), len(caught)) == (200, 6)
    assert use_every_item(path)
