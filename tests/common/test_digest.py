import hashlib

import numpy as np

from toolkit.common.json_files import SAMPLE_BYTES, SAMPLES, sample_digest


def test_sample_digest_depends_on_the_size_and_on_bytes_throughout_the_file(tmp_path):
    path, data = tmp_path / "a", bytearray((2 * SAMPLES - 1) * SAMPLE_BYTES)  # every other chunk
    digests = set()
    for position in (None, 0, 64 * SAMPLE_BYTES, len(data) - 1):
        if position is not None:
            data[position] = 1
        path.write_bytes(data)
        digests.add(sample_digest(path))
    path.write_bytes(data + b"\0")
    assert len({*digests, sample_digest(path)}) == 5


def test_sample_digest_of_the_fairseq_folder_of_an_older_run_is_unchanged(tmp_path):
    path = tmp_path / "a"
    for size in (0, 100, SAMPLE_BYTES + 153, SAMPLE_BYTES + 354, 1_000_003):
        path.write_bytes(data := np.random.default_rng(0).bytes(size))
        digest = hashlib.sha256(str(size).encode())
        for start in np.linspace(0, max(0, size - SAMPLE_BYTES), SAMPLES, dtype=np.int64):
            digest.update(data[start : start + SAMPLE_BYTES])
        assert sample_digest(path) == digest.hexdigest()
