import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.inspect import describe


@pytest.fixture
def folder(make_folder, random_prose):
    return make_folder(random_prose(100), valid_share=0.2).path


def test_a_folder_is_described_by_splits_columns_and_counts(folder):
    facts = describe(folder)
    assert facts["kind"] == "text"
    assert "items" in facts["train.tokens"]
    assert "1 part" in facts["valid.tokens"]
    assert "verified" not in facts


def test_verifying_reads_everything(folder):
    assert describe(folder, verify=True)["verified"].endswith("bytes, all checksums match")
    file = folder / "valid.tokens.0.bin"
    content = bytearray(file.read_bytes())
    content[130] ^= 1
    file.write_bytes(content)
    describe(folder)
    with pytest.raises(ToolkitError, match=r"valid.tokens.0.bin .* block 0 is damaged, .* item 0"):
        describe(folder, verify=True)
