import numpy as np
import pytest

from toolkit.data.samples.sequence_pairs import TextSamples
from toolkit.data.storage.memory_folder import SyntheticFolder


@pytest.mark.parametrize("samples", ["pairs", "blocks", "documents"])
def test_synthetic_samples_are_full(samples):
    folder = SyntheticFolder(20, items=6)
    column = folder.split("train").column("tokens")
    found = TextSamples(column, folder.vocabulary, sample_mode=samples, tokens_per_sample=512)
    assert (found.lengths == 512).mean() > 0.99
    tokens = found.read_batch(np.arange(2)).tokens
    assert set(tokens[:, 2:-1].flat) <= set(range(5, 20)) | {folder.vocabulary.sep}
