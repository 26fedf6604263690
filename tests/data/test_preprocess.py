import gzip
import json
import os
import re
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
from toolkit.data.preprocessing.input_files import plan_parts
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


@pytest.mark.slow
@pytest.mark.parametrize("units", ["lines", "sentences"])
def test_the_folder_does_not_depend_on_the_number_of_workers(
    tmp_path, text_file, monkeypatch, random_prose, units
):
    monkeypatch.setattr("toolkit.data.preprocessing.input_files.PART_BYTES", 4000)
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


def test_compressed_texts_and_folders_are_read(tmp_path, text_file, model_file):
    text_file(TEXT, "a.txt")
    text_file(gzip.compress(TEXT.encode()), "b.txt.gz")
    folder = run(tmp_path, trainpref=str(tmp_path), sentencepiece_model=str(model_file))
    assert items(folder)[:3] == items(folder)[3:]


def refusal(tmp_path, **options):
    with pytest.raises(ToolkitError) as caught:
        run(tmp_path, **options)
    assert [p.name for p in tmp_path.glob("out*")] == []
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("\n \n", {}, "trainpref must hold text, but .* has only blank lines"),
        (TEXT, {"valid_fraction": 0.01}, "too short to hold out .* runs of 16 lines .* sentences"),
        ("a b c\n", {"vocab_size": 4}, "--vocab-size must be at least 7, the number .* but is 4"),
        (TEXT, {"trainpref": "", "testpref": "{}"}, "no training text to learn a vocabulary"),
        (TEXT, {"segment_by": "words"}, "segment_by must be one of lines, paragraphs, sentences"),
        (TEXT, {"valid_fraction": 0.6, "test_fraction": 0.4}, "must leave text to train on"),
        (TEXT, {"valid_fraction": 0.1, "validpref": "b"}, "cannot be combined with --validpref"),
        (
            TEXT,
            {"tokenizer": "words", "max_item_tokens": 1, "overlength": "skip"},
            "has only lines that are blank or have more than 1 tokens",
        ),
    ],
)
def test_unusable_text_and_options_are_refused(tmp_path, text_file, text, options, message):
    path = str(text_file(text))
    given = {"trainpref": path, **options}
    given = {name: path if value == "{}" else value for name, value in given.items()}
    assert re.search(message, refusal(tmp_path, **given))


def test_complete_folder_is_replaced_only_with_overwrite(make_folder):
    before = make_folder(TEXT)
    with pytest.raises(ToolkitError, match=r"holds a data folder already.* with --overwrite"):
        make_folder(TEXT + "more\n")
    assert DataFolder.open(before.path).fingerprint == before.fingerprint
    after = make_folder(TEXT + "more\n", overwrite=True)
    assert len(items(after)) == 4
    assert [p.name for p in before.path.parent.glob("data?*") if p.is_dir()] == []


def test_equally_named_folders_of_one_process_have_the_ids_of_their_own_tokenizers(
    tmp_path, model_file, monkeypatch
):
    """The second run's workers are copies of the process."""
    for name, tokenizer in (("a", {"sentencepiece_model": str(model_file)}), ("b", {"workers": 2})):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        Path("text").write_text(TEXT * 50)
        kind = {} if name == "a" else {"tokenizer": "words"}
        files = {"trainpref": "text", "validpref": "text", "destdir": "data"}
        preprocess(preprocess_config(**files, **tokenizer, **kind))
    folder = DataFolder.open(Path("data"))
    assert folder.tokenizer.decode(items(folder)[0]) == TEXT.split("\n")[0]


@pytest.mark.slow
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
    while not list(tmp_path.glob(".out.*.tmp/*.npy")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "out").exists()
    run(tmp_path, trainpref=str(text_file(TEXT)), sentencepiece_model=str(model_file))
    assert [p.name for p in tmp_path.glob("out*")] == ["out"]


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
