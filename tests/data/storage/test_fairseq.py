import json

import numpy as np
import pytest

from tests.helpers.fairseq_files import write_folder
from tests.helpers.preprocessing import preprocess_config
from toolkit import load_checkpoint
from toolkit.cli import inspect, train, validate
from toolkit.data.preprocess import preprocess
from toolkit.data.samples.sequence_pairs import TextSamples
from toolkit.data.storage.data_folder import DataFolder

WORDS = ["the", "cat", "sat", "on", "mat"]
LINES = ["the cat sat", "on the mat", "", "the dog sat"]


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "data-bin", WORDS, {"train": LINES, "valid": LINES[:2]})


def test_fairseq_folder_opens_as_it_is(folder):
    found = DataFolder.open(folder)
    assert (found.kind, found.splits) == ("text", ["train", "valid"])
    column = found.split("train").column("tokens")
    assert (column.items, column.parts[0].documents, column.elements) == (3, 2, 9)
    assert len(found.vocabulary) == 4 + 5 + 1
    (part,) = column.parts
    assert found.tokenizer.decode(part.values[:3].tolist()) == "the cat sat"


def test_numbered_training_files_are_one_split_in_order(folder):
    for number in (10, 2, 1):
        write_folder(folder, WORDS, {f"train{number}": LINES, f"valid{number}": LINES})
    found = DataFolder.open(folder)
    assert found.splits == ["train", "valid", "valid1", "valid10", "valid2"]
    names = [part.files[0].name for part in found.split("train").column("tokens").parts]
    assert names == ["train.bin", "train1.bin", "train2.bin", "train10.bin"]


def test_fingerprint_depends_on_the_content_not_on_the_path(folder, tmp_path):
    same = write_folder(tmp_path / "same", WORDS, {"train": LINES, "valid": LINES[:2]})
    other = write_folder(tmp_path / "other", WORDS, {"train": LINES[::-1], "valid": LINES[:2]})
    prints = [DataFolder.open(f).fingerprint for f in (folder, same, other)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("samples", ["pairs", "blocks", "documents"])
def test_both_formats_of_a_text_give_the_same_samples(tmp_path, samples):
    draw = np.random.default_rng(0)
    lines = [" ".join(draw.choice(WORDS, size=draw.integers(0, 7))) for _ in range(200)]
    theirs = write_folder(tmp_path / "theirs", WORDS, {"train": lines})
    (tmp_path / "text.txt").write_text("\n".join(lines) + "\n")
    options = {"srcdict": str(theirs / "dict.txt"), "destdir": str(tmp_path / "ours")}
    preprocess(preprocess_config(trainpref=str(tmp_path / "text.txt"), workers=1, **options))
    found = []
    for folder in map(DataFolder.open, (theirs, tmp_path / "ours")):
        column = folder.split("train").column("tokens")
        read = TextSamples(column, folder.vocabulary, sample_mode=samples, tokens_per_sample=16)
        sentences = read.read_batch(np.arange(len(read.lengths)))
        found.append([part.tolist() for part in sentences[:3]])
        found[-1].append(column.parts[0].document_starts.tolist())
    assert found[0] == found[1]


@pytest.mark.slow
def test_commands_train_validate_and_inspect_without_conversion(tmp_path, capsys):
    draw = np.random.default_rng(0)
    lines = [" ".join(draw.choice(WORDS, size=draw.integers(0, 7))) for _ in range(60)]
    folder = str(write_folder(tmp_path / "bin", WORDS, {"train": lines, "valid": lines[:20]}))
    run = str(tmp_path / "run")
    sizes = ["--arch.layers", "1", "--arch.width", "16", "--arch.heads", "2"]
    words = [folder, "--arch", "bert_tiny", *sizes, "--task", "mlm", "--save-dir", run]
    words += ["--num-workers", "0", "--max-epoch", "3", "--task.sample-mode", "documents"]
    assert train.main(words) == 0
    found = json.loads((tmp_path / "run" / "result.json").read_text())
    documents = len([text for text in "\n".join(lines[:20]).split("\n\n") if text.strip()])
    assert found["valid"]["valid"]["examples"] == documents
    assert validate.main([folder, "--path", run, "--num-workers", "0"]) == 0
    assert f"{found['valid']['valid']['loss']:.4f}" in capsys.readouterr().out
    assert inspect.main([folder, run, "--verify", "--examples", "1"]) == 0
    assert len(load_checkpoint(run).fill_mask("the [MASK] sat")) == 1
