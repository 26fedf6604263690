from functools import partial

import numpy as np
import pytest

from toolkit.data.formats.text.binarize import PartTask, TextFormatConfig, binarize
from toolkit.data.preprocessing.workers import WorkerPool, share_tokenizer
from toolkit.data.text_files import FileChunk

TEXT = "the river\na house\n\nit was near\n"


@pytest.fixture
def binarized(tmp_path, tokenizer, text_file):
    """Items of each split, and the numbers of those that begin a document."""

    def run(text, fresh=True, **options):
        path = text_file(text)
        piece = FileChunk(path, 0, path.stat().st_size, fresh)
        config, seen = TextFormatConfig(**options), []
        share_tokenizer(tokenizer, tmp_path)
        work = partial(binarize, folder=tmp_path, options=config, max_line_bytes=1000)
        with WorkerPool(1) as pool:
            [found] = pool.map(
                work,
                [PartTask("train", 3, [piece])],
                on_progress=lambda *now: seen.append(now),
            )
        items = {
            split: np.split(part.column.values, part.column.offsets[1:-1])
            for split, part in found.items()
        }
        return found, items, seen

    return run


def test_part_is_named_by_split_column_and_number(binarized, tokenizer):
    found, items, _ = binarized(TEXT)
    assert found["train"].column.stem.name == "train.tokens.3"
    assert [tokenizer.decode(ids.tolist()) for ids in items["train"]] == [
        "the river",
        "a house",
        "it was near",
    ]


def test_blank_line_starts_a_document_and_a_part_may_continue_one(binarized):
    assert binarized(TEXT)[0]["train"].column.documents == 2
    assert binarized(TEXT, fresh=False)[0]["train"].column.documents == 1


def test_document_continues_across_chunks_of_the_text(binarized, monkeypatch):
    monkeypatch.setattr("toolkit.data.text_files.CHUNK_BYTES", 4)
    assert binarized(TEXT)[0]["train"].column.documents == 2


def test_progress_adds_up_to_all_bytes_and_tokens(binarized):
    found, _, seen = binarized(TEXT)
    assert sum(read for read, _ in seen) == len(TEXT)
    assert sum(tokens for _, tokens in seen) == found["train"].column.elements


def test_unknown_tokens_are_counted(binarized):
    assert binarized("the river\n")[0]["train"].counts["unknown"] == 0
    assert binarized("the \u4e16 river\n")[0]["train"].counts["unknown"] == 1


def test_held_out_items_go_to_their_split(binarized):
    found, items, _ = binarized("the river\n" * 160, valid_fraction=0.2)
    assert {split: len(parts) for split, parts in items.items()} == {"train": 128, "valid": 32}
    assert found.keys() == items.keys()
