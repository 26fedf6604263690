import lzma

import pytest

from tests.data.formats.tagging.conftest import PARTS
from tests.helpers.preprocessing import preprocess_config
from toolkit.data.formats.tagging.split import TaggedSplit, render_files, write_predictions
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder

TREEBANKS = 16


def own_tags(split):
    return [split.tables.tags[tag] for tag in split.tags]


def test_predictions_equal_to_the_tags_reproduce_the_file(folder, tmp_path):
    split = TaggedSplit(folder(), "valid")
    write_predictions(split, own_tags(split), tmp_path / "out.conllu")
    assert (tmp_path / "out.conllu").read_bytes() == (tmp_path / "valid.conllu").read_bytes()


def test_predicted_feature_is_set_among_the_others(folder, sentences):
    text = sentences("the dog").replace("NOUN\t_\t_", "NOUN\t_\tCase=Nom|Number=Sing")
    split = TaggedSplit(folder({"train": text, "valid": text, "test": None}, tag="Number"), "valid")
    [(_, data)] = render_files(split, ["Sing", "_"])
    assert b"DET\t_\tNumber=Sing\t" in data and b"NOUN\t_\tCase=Nom\t" in data


@pytest.mark.parametrize("separator", [" ", "\t"])
@pytest.mark.parametrize("column", [2, 3])
def test_files_for_conlleval_have_the_predicted_tag_after_the_true_one(tmp_path, separator, column):
    rows = ["-DOCSTART- -X- O", "", "a X|1 B-X", "b Y O", "", "", "-DOCSTART- -X- O", "", "c X O"]
    text = "\n".join(rows).replace(" ", separator)
    (tmp_path / "a.txt").write_text(text)
    options = {"format": "columns", "tag_column": column, "destdir": str(tmp_path / "data")}
    preprocess(preprocess_config(trainpref=str(tmp_path / "a.txt"), **options))
    split = TaggedSplit(DataFolder.open(options["destdir"]), "train")
    [(_, data)] = render_files(split, ["P", "Q", "R"], for_conlleval=True)
    tags = iter("PQR")
    for index, row in enumerate(rows):
        cells = row.split(" ")
        if row.startswith("-DOCSTART-"):
            cells.append("O")
        elif row:
            cells.insert(column, next(tags))
        rows[index] = separator.join(cells)
    assert data.decode() == "\n".join(rows)


@pytest.mark.parametrize(
    ("format", "name", "text", "expected"),
    [
        ("columns", "a.txt", "a\tY|1\nb\tY\n", "a\tY\nb\tY\n"),
        ("columns", "a.txt", "\na\tX\nb\tY\n\nc\tX", "\na\tY\nb\tY\n\nc\tY"),
        ("ptb", "a.mrg", "( (S (X a) (-NONE- *) (Y|X b)))\n", "( (S (Y a) (-NONE- *) (Y|X b)))\n"),
    ],
)
def test_predictions_are_written_in_every_format(tmp_path, format, name, text, expected):
    (tmp_path / name).write_text(text)
    destdir = str(tmp_path / "data")
    preprocess(preprocess_config(format=format, trainpref=str(tmp_path / name), destdir=destdir))
    split = TaggedSplit(DataFolder.open(destdir), "train")
    write_predictions(split, ["Y"] * len(split.types), tmp_path / "out")
    assert (tmp_path / "out").read_text() == expected


@pytest.mark.parametrize(
    ("format", "name", "text"),
    [
        ("conllu", "a.conllu", PARTS["train"]),
        ("columns", "a.txt", "-DOCSTART- O\n\na X\nb Y\n\n-DOCSTART- O\nc X\n"),
        ("ptb", "a.mrg", "( (S (X a)\n  (Y b)))\n( (X c) )\n"),
    ],
)
def test_files_of_windows_keep_byte_order_mark_and_line_ends(tmp_path, format, name, text):
    rendered = []
    for content in (text, "\ufeff" + text.replace("\n", "\r\n")):
        (tmp_path / name).write_text(content, encoding="utf-8", newline="")
        options = {"format": format, "destdir": str(tmp_path / f"data{len(rendered)}")}
        preprocess(preprocess_config(trainpref=str(tmp_path / name), **options))
        split = TaggedSplit(DataFolder.open(options["destdir"]), "train")
        [(_, data)] = render_files(split, ["P"] * len(split.types), for_conlleval=True)
        rendered.append(data.decode())
    assert rendered[1] == "\ufeff" + rendered[0].replace("\n", "\r\n")


def test_several_files_are_written_back(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(f"{name} X\n\n")
    files, destdir = ",".join(str(tmp_path / name) for name in "abc"), str(tmp_path / "data")
    preprocess(preprocess_config(format="columns", trainpref=files, destdir=destdir))
    split = TaggedSplit(DataFolder.open(destdir), "train")
    assert render_files(split, ["X", "Y", "Z"]) == [
        ("a", b"a X\n\n"), ("b", b"b Y\n\n"), ("c", b"c Z\n\n")
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize("index", range(TREEBANKS))
def test_real_treebank_is_reproduced_and_only_tags_change(real_data, tmp_path, index):
    folders = [
        p for kind in ("ud", "ud_v1", "ud_other_release") for p in (real_data / kind).glob("UD_*")
    ]
    found = [path for path in sorted(folders)[index].glob("*.conllu*") if path.stat().st_size]
    assert found, "a treebank has files"
    for path in sorted(found, key=lambda path: path.stat().st_size)[:1]:  # others take minutes
        destdir = str(tmp_path / path.stem)
        preprocess(preprocess_config(format="conllu", trainpref=str(path), destdir=destdir))
        split = TaggedSplit(DataFolder.open(destdir), "train")
        data = path.read_bytes()
        data = lzma.decompress(data) if path.suffix == ".xz" else data
        assert render_files(split, own_tags(split))[0][1] == data
        [(_, other)] = render_files(split, ["?"] * len(split.types))
        rows = [line.split(b"\t") for line in other.split(b"\n")]
        changed_rows = [[*row[:3], b"", *row[4:]] if row[0].isdigit() else row for row in rows]
        before = [line.split(b"\t") for line in data.split(b"\n")]
        assert changed_rows == [[*r[:3], b"", *r[4:]] if r[0].isdigit() else r for r in before]
        assert {row[3] for row in rows if row[0].isdigit()} == {b"?"}
