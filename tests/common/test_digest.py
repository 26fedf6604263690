import hashlib

from toolkit.common.digest import sha256, sha256_file


def test_sha256_is_that_of_hashlib_for_texts_bytes_and_files(tmp_path):
    data = "\N{LATIN SMALL LETTER E WITH ACUTE}" * 2**20
    (tmp_path / "a").write_text(data, "utf-8")
    expected = hashlib.sha256(data.encode()).hexdigest()
    assert sha256(data) == sha256(data.encode()) == sha256_file(tmp_path / "a") == expected
