import numpy as np

from toolkit.data.storage.column_writer import ColumnWriter
from toolkit.data.storage.header import HEADER_BYTES, read_header


def written(tmp_path, *adds):
    writer = ColumnWriter(tmp_path / "train.tokens.0", "<u2", "ab" * 32)
    for values, lengths, starts_document in adds:
        writer.add(np.array(values), np.array(lengths), np.array(starts_document, bool))
    return writer.finish()


def payload(tmp_path, ending, dtype):
    path = tmp_path / f"train.tokens.0.{ending}"
    header = read_header(path)
    data = path.read_bytes()[HEADER_BYTES:][: header.payload_bytes]
    return header, np.frombuffer(data, dtype)


def test_writer_puts_values_back_to_back_after_the_header(tmp_path):
    written(tmp_path, ([5, 6, 7], [2, 1], [1, 0]), ([8], [1], [1]))
    header, values = payload(tmp_path, "bin", "<u2")
    assert values[: header.elements].tolist() == [5, 6, 7, 8]
    assert (header.items, header.elements, header.documents) == (3, 4, 2)
    assert header.fingerprint == "ab" * 32


def test_index_holds_the_starts_of_items_and_documents(tmp_path):
    written(tmp_path, ([5, 6, 7], [2, 1], [1, 0]), ([8], [1], [1]))
    _, numbers = payload(tmp_path, "idx", "<i8")
    assert numbers.tolist() == [0, 2, 3, 4, 0, 2]


def test_meta_entry_describes_the_files(tmp_path):
    entry = written(tmp_path, ([5, 6, 7], [2, 1], [1, 0]))
    counts = {name: entry[name] for name in ("stem", "items", "elements", "documents")}
    assert counts == {"stem": "train.tokens.0", "items": 2, "elements": 3, "documents": 1}
    headers = [payload(tmp_path, ending, "<u2")[0] for ending in ("bin", "idx")]
    assert entry["checksums"] == [header.table_crc for header in headers]


def test_payloads_end_aligned(tmp_path):
    written(tmp_path, ([5], [1], [1]))
    assert payload(tmp_path, "bin", "<u2")[0].payload_bytes == 8
