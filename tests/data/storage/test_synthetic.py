import numpy as np
import pytest

from toolkit.data.samples.sequence_pairs import SegmentedSamples
from toolkit.data.samples.text_samples import TextSamples
from toolkit.data.storage.memory_folder import SyntheticFolder, synthetic_vocabulary


def test_synthetic_vocabulary_of_any_size_has_special_tokens_and_words():
    words = synthetic_vocabulary(9)
    assert len(words) == len(set(words.symbols)) == 9
    assert words.starts_word.sum() == 4


@pytest.mark.parametrize("samples", ["pairs", "blocks", "documents"])
def test_synthetic_samples_are_full(samples):
    folder = SyntheticFolder(synthetic_vocabulary(20), items=6)
    column = folder.split("train").column("tokens")
    found = TextSamples(column, folder.vocabulary, sample_mode=samples, tokens_per_sample=512)
    assert (found.lengths == 512).mean() > 0.99
    tokens = found.read_batch(np.arange(2)).tokens
    assert set(tokens[:, 2:-1].flat) <= set(range(5, 20)) | {folder.vocabulary.sep}


def test_most_synthetic_electra_samples_are_full():
    folder = SyntheticFolder(synthetic_vocabulary(20), items=200)
    column = folder.split("train").column("tokens")
    found = SegmentedSamples(column, folder.vocabulary, tokens_per_sample=512)
    assert (found.lengths == 512).mean() > 0.8
