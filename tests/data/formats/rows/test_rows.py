"""Labeled rows: every kind of file gives the columns of the same rows in the task's own files."""

import csv
import json

import numpy as np
import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.formats.rows.format import choose_held_out
from toolkit.data.preprocess import preprocess

MOODS = [('a lovely, "fine" film', "good"), ("dull", "bad"), ("", "bad"), ("naïve", "good")]
REVIEWS = [{"id": f"r{n}", "review": text, "mood": mood} for n, (text, mood) in enumerate(MOODS)]


def write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def write_tsv(path, rows):
    lines = [[*rows[0]], *([*row.values()] for row in rows)]
    path.write_text("".join("\t".join(map(str, line)) + "\n" for line in lines), "utf-8")


def write_json_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def to_table(rows, names):
    """A table whose columns among `names` are numbers of classes, as Hugging Face stores them."""
    arrow = pytest.importorskip("pyarrow")
    features = {}
    for column, classes in names.items():
        feature = {"names": classes, "_type": "ClassLabel"}
        nested = isinstance(rows[0][column], list)
        features[column] = {"feature": feature, "_type": "List"} if nested else feature
        to_id = classes.index
        rows = [
            {**row, column: [*map(to_id, row[column])] if nested else to_id(row[column])}
            for row in rows
        ]
    stored = {"huggingface": json.dumps({"info": {"features": features}})}
    return arrow.Table.from_pylist(rows).replace_schema_metadata(stored)


def write_parquet(path, rows, names=()):
    table = to_table(rows, dict(names))
    pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=2)


def write_arrow(path, rows, names=()):
    table = to_table(rows, dict(names))
    with pytest.importorskip("pyarrow").ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


def write_saved(path, rows, names=()):
    path.mkdir(parents=True)
    write_arrow(path / "data-00000-of-00001.arrow", rows, names)
    state = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}
    (path / "state.json").write_text(json.dumps(state))


KINDS = {
    "a.csv": write_csv,
    "a.tsv": write_tsv,
    "a.jsonl": write_json_lines,
    "a.parquet": write_parquet,
    "a.arrow": write_arrow,
    "saved": write_saved,
}
TYPED = ("a.parquet", "a.arrow", "saved")


def columns(folder):
    """The bytes of a data folder's columns."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.npy"))}


def make(tmp_path, name, **options):
    options = {"format": "rows", "tokenizer": "words", "destdir": str(tmp_path / name), **options}
    preprocess(preprocess_config(**options))
    return tmp_path / name


@pytest.mark.parametrize("kind", KINDS)
def test_texts_equal_those_of_a_table(tmp_path, kind):
    write_tsv(tmp_path / "own.tsv", REVIEWS)
    names = {"mood": ["bad", "good"]} if kind in TYPED else {}
    KINDS[kind](tmp_path / kind, REVIEWS, *([names] if names else []))
    given = {"text_columns": "review", "label_column": "mood"}
    expected = make(tmp_path, "own", format="tsv", trainpref=str(tmp_path / "own.tsv"), **given)
    found = make(tmp_path, "rows", trainpref=str(tmp_path / kind), **given)
    assert columns(found) == columns(expected)
    settings = json.loads((found / "tokenizer_config.json").read_text())
    assert settings["columns"] == {"sentence": "review"}
    assert json.loads((found / "labels.json").read_text())["classes"] == ["bad", "good"]


TAGGED = [(["the", "dog"], ["O", "B-X"]), (["naïve", "10\u00a0000"], ["O", "B\u00a0Y"])]


@pytest.mark.parametrize("kind", KINDS)
def test_tags_equal_those_of_columns(tmp_path, kind):
    lines = ["".join(f"{w}\t{t}\n" for w, t in zip(*row, strict=True)) for row in TAGGED]
    (tmp_path / "own.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    rows = [{"tokens": words, "ner": tags} for words, tags in TAGGED]
    if kind in ("a.csv", "a.tsv"):
        rows = [{name: " ".join(values) for name, values in row.items()} for row in rows]
    KINDS[kind](
        tmp_path / kind, rows, *([{"ner": ["B-X", "B\u00a0Y", "O"]}] if kind in TYPED else [])
    )
    own = {"format": "columns", "trainpref": str(tmp_path / "own.txt")}
    expected = make(tmp_path, "own", tokenizer=None, **own)
    given = {"words_column": "tokens", "tags_column": "ner", "tokenizer": None}
    found = make(tmp_path, "rows", trainpref=str(tmp_path / kind), **given)
    assert columns(found) == columns(expected)
    assert (found / "types.txt").read_bytes() == (expected / "types.txt").read_bytes()


SENTENCES = [("a dog", "ein Hund"), ('he said "no"', "er sagte nein"), ("", "naïv")]
NESTED = [{"translation": {"de": de, "en": en}} for en, de in SENTENCES]


@pytest.mark.parametrize("kind", KINDS)
def test_translations_equal_those_of_parallel_text(tmp_path, kind):
    for language, lines in zip(("en", "de"), zip(*SENTENCES, strict=True), strict=True):
        (tmp_path / f"own.{language}").write_text("".join(f"{it}\n" for it in lines), "utf-8")
    rows, given = NESTED, {"source_lang": "en", "target_lang": "de"}
    own = {"trainpref": str(tmp_path / "own"), "validpref": str(tmp_path / "own")}
    expected = make(tmp_path, "own", format="parallel", **own, **given)
    if kind in ("a.csv", "a.tsv"):
        rows = [{"n": n, "german": de, "english": en} for n, (en, de) in enumerate(SENTENCES)]
        given["text_columns"] = "english,german"
    KINDS[kind](tmp_path / kind, rows)
    inputs = {"trainpref": str(tmp_path / kind), "validpref": str(tmp_path / kind)}
    found = make(tmp_path, "rows", **inputs, **given)
    assert columns(found) == columns(expected)
    assert (found / "target/dict.txt").read_bytes() == (expected / "target/dict.txt").read_bytes()


def test_rows_whose_class_is_minus_one_are_left_out(tmp_path, capsys):
    table = to_table(REVIEWS, {"mood": ["bad", "good"]})
    rows = [*table.to_pylist(), {"id": "r4", "review": "no agreement", "mood": -1}]
    table = type(table).from_pylist(rows, schema=table.schema)
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
    given = {"text_columns": "review", "label_column": "mood"}
    folder = make(tmp_path, "data", trainpref=str(tmp_path / "a.parquet"), **given)
    split = json.loads((folder / "meta.json").read_text())["splits"]["train"]
    assert split["labels"] == {"bad": 2, "good": 2}
    assert "a.parquet:5: its annotators did not agree" in capsys.readouterr().out


def test_a_dataset_has_its_own_splits(tmp_path):
    for split in ("train", "validation", "test"):
        write_saved(tmp_path / "all" / split, REVIEWS)
    (tmp_path / "all" / "dataset_dict.json").write_text("{}")
    given = {"text_columns": "review", "label_column": "mood"}
    folder = make(tmp_path, "data", trainpref=str(tmp_path / "all"), **given)
    assert [*json.loads((folder / "meta.json").read_text())["splits"]] == ["train", "valid", "test"]


def test_held_out_rows_have_the_fraction_of_each_class(tmp_path):
    strata = ["a"] * 100 + ["b"] * 40 + ["c"]
    held = choose_held_out(strata, 0.1, 1)
    assert [held[:100].sum(), held[100:140].sum(), held[140]] == [10, 4, False]
    assert [choose_held_out([*labels], 0.5, 1).sum() for labels in ("aabb", "a", "ab")] == [2, 0, 0]
    assert choose_held_out([*"aab"], 0.01, 1).sum() == 1
    assert np.array_equal(held, choose_held_out(strata, 0.1, 1))
    assert not np.array_equal(held, choose_held_out(strata, 0.1, 2))
    write_csv(tmp_path / "a.csv", REVIEWS * 5)
    given = {"text_columns": "review", "label_column": "mood", "valid_fraction": 0.2}
    folder = make(tmp_path, "data", trainpref=str(tmp_path / "a.csv"), **given)
    splits = json.loads((folder / "meta.json").read_text())["splits"]
    assert [splits[split]["labels"] for split in ("train", "valid")] == [
        {"bad": 8, "good": 8},
        {"bad": 2, "good": 2},
    ]


CSV = {"text_columns": "text", "label_column": "label"}
TAGS = {"label_type": "tags", "tokenizer": None}
PAIR = {"source_lang": "en", "target_lang": "de"}
BAD = [
    ("a.csv", 'text,label\n"a,b\n', CSV, "a.csv:2: the row that starts here is malformed"),
    ("a.csv", "text,label\na,b\nc\n", CSV, "a.csv:3: a row must have 2 columns"),
    ("a.csv", "text,label\na,b\nc,\n", CSV, "a.csv:3: the row must have an answer, but"),
    ("a.csv", "text,mood\na,b\n", CSV, "a.csv:2: the row has no field 'label'. Its fields are"),
    ("a.csv", "body,label\na,b\n", CSV, "a.csv:2: the task reads 'text', but 'text' is missing"),
    ("a.jsonl", '{"text": 3, "label": 1}\n', CSV, "a.jsonl:1: 'text' must be text, but is a"),
    ("a.jsonl", '{"text": "", "label": []}', CSV, "a.jsonl:1: the answer must be a text or a"),
    ("a.jsonl", '{"words": ["a", "b"], "tags": ["O"]}', TAGS, "a.jsonl:1: each word must have"),
    ("a.csv", "words,tags\n\"['a', 'b']\",O O\n", TAGS, "a.csv:2: 'words' must be words, but is a"),
    ("a.csv", "words\na b\n", TAGS, "a.csv:2: the task reads 'words' and 'tags', but 'tags' is"),
    ("a.jsonl", "3\n", TAGS, "a.jsonl:1: the row must be an object with names of columns"),
    ("a.jsonl", '{"words": ["a"], "tags": ["B X"]}', TAGS, "a.jsonl:1: a word must have a tag wit"),
    ("a.jsonl", '{"translation": {"en": "a"}}', PAIR, "a.jsonl:1: the task reads 'en' and 'de', "),
    ("a.jsonl", '{"en": "a", "de": 1}', PAIR, "a.jsonl:1: 'de' must be text, but is a number."),
    ("a.csv", "en,de\na a,b\n", PAIR | {"max_item_tokens": 1}, "a.csv:2: an item must have at mo"),
    ("a.txt", "a\tb\n", CSV, "a.txt does not. Rename it."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "options", "message"), BAD)
def test_malformed_rows_are_named(tmp_path, name, text, options, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ToolkitError) as error:
        make(tmp_path, "data", trainpref=str(tmp_path / name), **options)
    assert message in str(error.value)
    assert str(error.value).count(message[:6]) == 1


@pytest.mark.parametrize("given", [TAGS, PAIR])
def test_malformed_rows_may_be_left_out(tmp_path, capsys, given):
    """They are counted once, although training rows of translations are read several times."""
    good = {"words": ["a"], "tags": ["O"], "en": "a", "de": "b"}
    rows = [good, {"words": ["a", "b"], "tags": ["O"], "en": 3, "de": "b"}, good]
    write_json_lines(tmp_path / "a.jsonl", rows)
    options = {"trainpref": str(tmp_path / "a.jsonl"), "json": str(tmp_path / "out")}
    folder = make(tmp_path, "data", on_malformed="skip", **options, **given)
    splits = json.loads((folder / "meta.json").read_text())["splits"]
    assert {column["items"] for column in splits["train"]["columns"].values()} == {2}
    events = map(json.loads, (tmp_path / "out").read_text().splitlines())
    [event] = [it for it in events if it["event"] == "left_out"]
    assert event["line"] == 2 and f"left out {event['file']}:2: " in capsys.readouterr().out


def test_a_new_label_in_validation_is_named(tmp_path):
    write_csv(tmp_path / "a.csv", REVIEWS)
    write_csv(tmp_path / "b.csv", [REVIEWS[0] | {"mood": "odd"}])
    given = {"text_columns": "review", "label_column": "mood"}
    inputs = {"trainpref": str(tmp_path / "a.csv"), "validpref": str(tmp_path / "b.csv")}
    with pytest.raises(ToolkitError, match=r"b\.csv:2: the label must be one of the training data"):
        make(tmp_path, "data", **inputs, **given)


def test_a_dataset_without_training_split_is_named(tmp_path):
    write_saved(tmp_path / "all" / "test", REVIEWS)
    (tmp_path / "all" / "dataset_dict.json").write_text("{}")
    with pytest.raises(ToolkitError, match=r"trainpref .*all has no split train, but has test\."):
        make(tmp_path, "data", trainpref=str(tmp_path / "all"))
