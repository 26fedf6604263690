import gzip
import json
import os
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.preprocess import preprocess
from toolkit.data.preprocessing.segmentation import plan_parts
from toolkit.data.storage.data_folder import DataFolder

TEXT = "the old house.\nthe river\n\nunder the red house\n"


def items(folder, split="train"):
    found = []
    for part in folder.split(split).column("tokens").parts:
        found += [ids.tolist() for ids in np.split(part.values, part.offsets[1:-1])]
    return found


def run(tmp_path, **options):
    options = {"destdir": str(tmp_path / "out"), "workers": 1, "vocab_size": 60, **options}
    preprocess(preprocess_config(**options))
    return DataFolder.open(options["destdir"])


def test_text_is_read_back_item_by_item(make_folder):
    folder = make_folder(TEXT)
    decoded = [folder.tokenizer.decode(ids) for ids in items(folder)]
    assert decoded == ["the old house.", "the river", "under the red house"]
    assert folder.split("train").column("tokens").parts[0].document_starts.tolist() == [0, 2]


def test_model_is_trained_on_the_text_unless_given(tmp_path, text_file, random_prose):
    folder = run(tmp_path, trainpref=str(text_file(random_prose(300))), vocab_size=45)
    assert len(folder.vocabulary) == 49
    assert folder.tokenizer.decode(items(folder)[0]) in random_prose(300)


def test_vocabulary_is_smaller_if_the_text_cannot_fill_it(
    tmp_path, text_file, random_prose, capsys
):
    folder = run(tmp_path, trainpref=str(text_file(random_prose(300))), vocab_size=20000)
    assert len(folder.vocabulary) < 2000
    assert "the text has no more, 20000 were requested" in capsys.readouterr().err


@pytest.mark.parametrize("units", ["lines", "sentences"])
def test_the_folder_does_not_depend_on_the_number_of_workers(
    tmp_path, text_file, monkeypatch, random_prose, units
):
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 4000)
    text = str(text_file(random_prose(600).replace(". ", ". A ").replace("\n\n", "\n\n\n")))
    folders = []
    for workers in (1, 2, 3):
        options = {
            "destdir": str(tmp_path / f"{workers}"),
            "segment_by": units,
            "valid_fraction": 0.3,
        }
        folders.append(run(tmp_path, trainpref=text, workers=workers, **options))
    assert len(plan_parts([Path(text)], units)) > 5
    assert len({folder.fingerprint for folder in folders}) == 1


def test_several_parts_hold_the_same_items_as_one(make_folder, monkeypatch, random_prose):
    whole = make_folder(random_prose(300), "whole")
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 1000)
    cut = make_folder(random_prose(300), "cut")
    assert cut.fingerprint == whole.fingerprint


def test_held_out_items_are_missing_from_the_training_split(make_folder):
    text = "".join(f"{number}\n" for number in range(2000))
    folder = make_folder(text, valid_fraction=0.1, test_fraction=0.05)
    numbers = {
        split: [int(folder.tokenizer.decode(ids)) for ids in items(folder, split)]
        for split in folder.splits
    }
    assert sorted(chain.from_iterable(numbers.values())) == list(range(2000))
    assert [len(numbers[split]) for split in ("valid", "test")] == [208, 96]
    part = folder.split("train").column("tokens").parts[0]
    starts = np.array(numbers["train"])[part.document_starts]
    assert set(starts.tolist()) == {0, *(b for b in starts if b - 1 not in numbers["train"])}


def test_held_out_fraction_does_not_depend_on_the_parts(make_folder, monkeypatch):
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 1000)
    folder = make_folder("a house\n" * 5000, valid_fraction=0.02)
    assert folder.split("valid").items == 96


def test_folders_of_several_machines_with_one_tokenizer_hold_the_items_of_one_folder(
    tmp_path, text_file, random_prose
):
    lines = random_prose(400).splitlines(keepends=True)
    whole, first, second = (
        str(text_file("".join(part), name))
        for name, part in (("w", lines), ("a", lines[:150]), ("b", lines[150:]))
    )
    one = run(tmp_path, trainpref=whole, destdir=str(tmp_path / "one"))
    given = {"tokenizer_from": str(tmp_path / "one")}
    folders = [
        run(tmp_path, trainpref=path, destdir=f"{path}.data", **given) for path in (first, second)
    ]
    assert [*items(folders[0]), *items(folders[1])] == items(one)


def test_compressed_texts_and_folders_are_read(tmp_path, text_file, model_file):
    text_file(TEXT, "a.txt")
    text_file(gzip.compress(TEXT.encode()), "b.txt.gz")
    folder = run(tmp_path, trainpref=str(tmp_path), sentencepiece_model=str(model_file))
    assert items(folder)[:3] == items(folder)[3:]


def test_lowercasing_is_stored_in_the_tokenizer(make_folder):
    folder = make_folder("THE OLD Café\n", lowercase=True)
    assert folder.tokenizer.decode(items(folder)[0]) == "the old cafe"
    assert folder.tokenizer.encode("THE") == folder.tokenizer.encode("the")


def test_lines_without_tokens_are_dropped(make_folder):
    folder = make_folder("\u200b\nthe old\n\n\u0301\nhouse\n", lowercase=True)
    column = folder.split("train").column("tokens")
    assert (column.items, column.documents) == (2, 2)


def refusal(tmp_path, **options):
    with pytest.raises(ToolkitError) as caught:
        run(tmp_path, **options)
    assert [p.name for p in tmp_path.glob("out*")] == []
    return str(caught.value)


@pytest.mark.parametrize("workers", [1, 2])
def test_malformed_line_ends_the_run_and_leaves_no_files(
    tmp_path, text_file, model_file, monkeypatch, workers
):
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 100)
    path = text_file(b"good line\n" * 100 + b"b\xffd\n")
    options = {"sentencepiece_model": str(model_file), "workers": workers}
    assert refusal(tmp_path, trainpref=str(path), **options).startswith(
        f"{path}:101: expected UTF-8"
    )


def test_blank_text_is_rejected(tmp_path, text_file, model_file):
    path = str(text_file("\n \n"))
    found = refusal(tmp_path, trainpref=path, sentencepiece_model=str(model_file))
    assert found == f"trainpref must hold text, but {path} has only blank lines. Give other files."


def test_text_too_short_to_hold_out_of_is_rejected(tmp_path, text_file, model_file):
    options = {"sentencepiece_model": str(model_file), "valid_fraction": 0.01}
    found = refusal(tmp_path, trainpref=str(text_file(TEXT)), **options)
    assert found.startswith("the text is too short to hold out")


def test_text_too_short_for_a_model_is_rejected(tmp_path, text_file):
    found = refusal(tmp_path, trainpref=str(text_file("a b c\n")), vocab_size=4)
    assert "Give more text, a smaller --vocab-size, or a --sentencepiece-model." in found


def test_missing_or_invalid_model_is_rejected(tmp_path, text_file):
    path = str(text_file(TEXT))
    found = refusal(tmp_path, trainpref=path, sentencepiece_model="nowhere.model")
    assert found.startswith("cannot read --sentencepiece-model nowhere.model")
    found = refusal(tmp_path, trainpref=path, sentencepiece_model=path)
    assert found.startswith("a SentencePiece model must be readable by sentencepiece")


def test_training_a_model_requires_training_text(tmp_path, text_file):
    found = refusal(tmp_path, validpref=str(text_file(TEXT)))
    assert found.startswith("no training text to learn a vocabulary from")


def test_complete_folder_is_replaced_only_with_overwrite(make_folder):
    before = make_folder(TEXT)
    with pytest.raises(ToolkitError, match=r"holds a data folder already.* with --overwrite"):
        make_folder(TEXT + "more\n")
    assert DataFolder.open(before.path).fingerprint == before.fingerprint
    after = make_folder(TEXT + "more\n", overwrite=True)
    assert len(items(after)) == 4
    assert [p.name for p in before.path.parent.glob("data?*") if p.is_dir()] == []


def test_folder_of_other_files_is_never_replaced(tmp_path, make_folder):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.tex").write_text("")
    with pytest.raises(ToolkitError, match="holds something else than a data folder"):
        make_folder(TEXT, overwrite=True)


def test_failed_replacement_keeps_the_old_folder(make_folder):
    before = make_folder(TEXT)
    with pytest.raises(ToolkitError, match="NUL"):
        make_folder("\0", overwrite=True)
    assert DataFolder.open(before.path).fingerprint == before.fingerprint


def test_killed_run_leaves_no_complete_folder_and_the_next_removes_its_files(
    tmp_path, text_file, model_file, random_prose
):
    text = text_file(random_prose(1000) * 40)
    code = (
        "from toolkit import preprocess\n"
        f"preprocess(trainpref={str(text)!r}, workers=1, "
        f"destdir={str(tmp_path / 'out')!r}, sentencepiece_model={str(model_file)!r})"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ)
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob("out.partial-*/*.npy")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out").exists()
    run(tmp_path, trainpref=str(text_file(TEXT)), sentencepiece_model=str(model_file))
    assert [p.name for p in tmp_path.glob("out*")] == ["out"]


def test_run_ends_with_a_table(make_folder, capsys):
    make_folder(TEXT, validpref="")
    output = capsys.readouterr().out
    assert all(word in output for word in ("documents", "unknown", "tokens/s", "with 1 worker"))


LONG = "the old house\nthe river\nunder the red house near the old river was it\n"


def fitted(tmp_path, text_file, **options):
    options = {"tokenizer": "words", "max_item_tokens": 4, **options}
    folder = run(tmp_path, trainpref=str(text_file(LONG)), **options)
    meta = json.loads((folder.path / "meta.json").read_text())
    return [len(ids) for ids in items(folder)], meta["splits"]["train"]


def test_item_beyond_the_limit_is_an_error_with_its_line(tmp_path, text_file):
    options = {"tokenizer": "words", "max_item_tokens": 4}
    found = refusal(tmp_path, trainpref=str(text_file("\n" + LONG)), **options)
    assert found.startswith(
        f"{tmp_path}/text.txt:4: an item must have at most 4 tokens, but 'under the red house near "
        f"the old river w'... has 10. Raise --max-item-tokens, or choose --overlength skip"
    )


@pytest.mark.parametrize(
    ("policy", "lengths", "lost"),
    [("skip", [3, 2], 10), ("truncate", [3, 2, 4], 6), ("split", [3, 2, 4, 4, 2], 0)],
)
def test_overlength_items_are_counted_and_reported(
    tmp_path, text_file, capsys, policy, lengths, lost
):
    found, entry = fitted(tmp_path, text_file, overlength=policy)
    assert found == lengths
    assert (entry["overlength"], entry["lost_tokens"]) == (1, lost)
    output = capsys.readouterr().out
    assert "over 4" in output and "tokens lost" in output and "train: 1 item too long" in output


def test_items_of_invisible_characters_are_counted(tmp_path, text_file, model_file, capsys):
    path = str(text_file("the\n\u200b\n\u200b\n"))
    folder = run(tmp_path, trainpref=path, sentencepiece_model=str(model_file))
    assert len(items(folder)) == 1
    assert "train: 2 items of invisible characters only, left out" in capsys.readouterr().out


def test_split_of_overlength_items_only_is_rejected(tmp_path, text_file):
    options = {"tokenizer": "words", "max_item_tokens": 1, "overlength": "skip"}
    found = refusal(tmp_path, trainpref=str(text_file(TEXT)), **options)
    assert "has only lines that are blank or have more than 1 tokens" in found


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "no input: give --trainpref, --validpref or --testpref"),
        (
            {"segment_by": "words"},
            "segment_by must be one of lines, paragraphs, sentences, but is 'words'",
        ),
        ({"valid_fraction": 1.0}, "valid_fraction must be at least 0 and below 1, but is 1.0"),
        ({"valid_fraction": 0.6, "test_fraction": 0.4}, "must leave text to train on"),
        (
            {"valid_fraction": 0.1, "validpref": "b"},
            "--valid-fraction cannot be combined with --validpref",
        ),
        ({"vocab_size": 3}, "vocab_size must be at least 4, but is 3"),
        ({"sentencepiece_type": "word"}, "must be one of unigram, bpe, but is 'word'"),
        (
            {"character_coverage": 0.5},
            "must be at least 0.9 and at most 1, but is 0.5",
        ),
        ({"workers": -1}, "workers must be at least 0, but is -1"),
        ({"max_line_bytes": 0}, "max_line_bytes must be at least 1, but is 0"),
        ({"max_item_tokens": -1}, "max_item_tokens must be at least 0, but is -1"),
        ({"overlength": "drop"}, "must be one of error, skip, truncate, split, but is 'drop'"),
        ({"tokenizer": "bpe"}, "must be one of sentencepiece, words, wordpiece, but is 'bpe'"),
        (
            {"srcdict": "a", "tokenizer_from": "b"},
            "--srcdict and --tokenizer-from cannot be combined",
        ),
        (
            {"srcdict": "a", "tokenizer": "wordpiece"},
            "--tokenizer wordpiece and --srcdict cannot be combined",
        ),
        ({"min_count": 0}, "min_count must be at least 1, but is 0"),
    ],
)
def test_options_that_cannot_be_combined_are_rejected(options, message):
    options = {"trainpref": "a", **options} if options else {}
    with pytest.raises(ToolkitError, match=message):
        preprocess(preprocess_config(**options))


@pytest.mark.realdata
def test_novels_with_bom_crlf_and_gz_are_preprocessed(tmp_path, real_data, model_file):
    novels = real_data / "text" / "english_novels"
    packed = sorted((real_data / "text" / "english_novels_gz").glob("*.gz"))[0]
    folder = run(
        tmp_path,
        trainpref=f"{novels},{packed}",
        segment_by="sentences",
        sentencepiece_model=str(model_file),
        workers=2,
    )
    column = folder.split("train").column("tokens")
    assert column.documents == 7
    assert column.items > 20_000
