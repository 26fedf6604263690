"""toolkit-predict: the predictions of toolkit-validate, for every line and in order."""

import io
import json
import sys

import pytest

from tests.cli.test_json import documented_keys
from tests.data.formats.rows.test_rows import KINDS, MOODS, TYPED
from tests.helpers.preprocessing import preprocess_config
from tests.tasks.conftest import (
    ASKED,
    NOTHING,
    TABLES,
    TOWN,
    asked,
    glue as glue,
    questions as questions,
    tagged as tagged,
)
from toolkit import load_checkpoint
from toolkit.cli.predict import main
from toolkit.cli.validate import main as validate
from toolkit.config.load import compose
from toolkit.data.formats.rows.format import read_class_names
from toolkit.data.preprocess import preprocess
from toolkit.data.records import read_records
from toolkit.data.storage.data_folder import DataFolder
from toolkit.training.run import run

TINY = {
    "arch": "bert_tiny", "arch.layers": 1, "num_workers": 0, "max_update": 2, "lr": 0.03,
    "precision": "fp32", "device": "cpu", "batch_size": 4, "log_interval": 100,
}  # fmt: skip
WORDS = {"arch": "conv_san_ud", "arch.heads": 2, "arch.word_width": 16, "arch.layers": 1}
NARROW = {"arch.max_positions": 48}


@pytest.fixture
def train(tmp_path):
    """Trains a tiny model on a data folder; returns the save folder."""

    def make(task, folder, **options):
        save_dir = str(tmp_path / f"{task}-run")
        data = {"task": task, "data.dirs": [str(folder.path)], "save_dir": save_dir}
        run(compose({**TINY, **data, **options}))
        return save_dir

    return make


@pytest.fixture
def validated(tmp_path):
    """The file that toolkit-validate --predictions writes for a split."""

    def make(path, folder, split="valid", name="validated"):
        written = tmp_path / name
        words = ["--path", path, "--valid-subset", split, "--predictions", str(written)]
        assert validate([str(folder.path), *words, "--num-workers", "0"]) == 0
        return written.read_text()

    return make


@pytest.fixture
def predict(tmp_path, monkeypatch, capsys):
    """The lines that toolkit-predict writes for a file of this name, or without one for a pipe."""

    def make(path, text, *words, name=None, code=0):
        data = text if isinstance(text, bytes) else text.encode()
        source = "-"
        if name:
            (tmp_path / name).write_bytes(data)
            source = str(tmp_path / name)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        capsys.readouterr()
        assert main(["--path", path, "--input", source, *words]) == code
        printed = capsys.readouterr()
        return printed.out.split("\n")[:-1] if code == 0 else (printed.out, printed.err)

    return make


PAIRS = "index\tsentence1\tsentence2\n1\tcats sat\tcats\n0\tdogs sat\tthe dogs\n"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """The save folder of a model of RTE, and its data folder."""
    place = tmp_path_factory.mktemp("classifier")
    for name, text in TABLES["RTE"].items():
        (place / f"{name}.tsv").write_text(text)
    given = {"format": "glue", "glue_task": "RTE", "trainpref": str(place), "vocab_size": 30}
    preprocess(preprocess_config(**given, destdir=str(place / "data")))
    data = {"task": "glue", "data.dirs": [str(place / "data")], "save_dir": str(place / "run")}
    run(compose({**TINY, **data}))
    return str(place / "run"), DataFolder.open(str(place / "data"))


@pytest.mark.slow
def test_classes_equal_those_of_validate(classifier, validated, predict):
    path, folder = classifier
    by_index = dict(row.split("\t") for row in validated(path, folder, "test").splitlines()[1:])
    header, *rows = predict(path, PAIRS, name="test.tsv")
    assert header == "index\tsentence1\tsentence2\tlabel\tprobability"
    assert [row.split("\t")[3] for row in rows] == [by_index["1"], by_index["0"]]


def test_numbers_equal_those_of_validate(glue, train, validated, predict):
    folder = glue("STS-B")
    path = train("glue", folder, valid_subset="")
    expected = [row.split("\t")[1] for row in validated(path, folder, "train").splitlines()[1:]]
    lines = "the cat sat\ta cat sat\ndogs run\tcats\n" * 4
    assert [f"{float(value):.3f}" for value in predict(path, lines)] == expected


def test_answers_equal_those_of_validate(questions, train, validated, predict):
    folder = questions("squad")
    path = train("squad", folder, **NARROW)
    [article] = json.loads((folder.path.parent / "town.json").read_text())["data"]
    [paragraph] = article["paragraphs"]
    items = [{**question, "context": paragraph["context"]} for question in paragraph["qas"]]
    lines = predict(path, "".join(json.dumps(item) + "\n" for item in items), name="town.jsonl")
    answers = {each["id"]: each["answer"] for each in map(json.loads, lines)}
    assert answers == json.loads(validated(path, folder))


@pytest.mark.slow
def test_unanswered_questions_equal_those_of_validate(questions, train, validated, predict):
    """The threshold that validation tuned decides, as for a test split of SQuAD 2.0."""
    bare = [asked(n, text) for n, text in enumerate(["Who cooks?", "When?", "Jose", "Anna mill"])]
    folder = questions(asked=[*ASKED, *NOTHING], version="2.0", bare=bare)
    path = train("squad", folder, **NARROW)
    items = [{**question, "context": TOWN} for question in bare]
    lines = "".join(json.dumps(item) + "\n" for item in items)
    found = [json.loads(line) for line in predict(path, lines, name="bare.jsonl")]
    expected = json.loads(validated(path, folder, "test"))
    assert {each["id"]: each["answer"] for each in found} == expected
    assert "" in expected.values()


def test_options_equal_those_of_validate(questions, train, validated, predict):
    folder = questions("swag")
    path = train("multiple_choice", folder, **NARROW)
    rows = (folder.path.parent / "swag.csv").read_text().replace(",", "\t")
    expected = [row.split(",")[1] for row in validated(path, folder).splitlines()[1:]]
    header, *predicted = predict(path, rows, name="swag.tsv")
    assert header.endswith("\toption\tprobability\ttext")
    assert [row.split("\t")[-3] for row in predicted] == expected


def read_saved(path):
    files = [path] if path.is_file() else sorted(path.glob("*.arrow"))
    return [record.values for file in files for record in read_records(file)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rows_keep_their_columns_and_equal_those_of_validate(
    tmp_path, train, validated, predict, kind
):
    """The checkpoint knows the column of the texts; the label of the row keeps its name."""
    rows = [{"label": mood, "n": n, "review": text} for n, (text, mood) in enumerate(MOODS)]
    names = {"label": ["bad", "good"]} if kind in TYPED else {}
    KINDS[kind](tmp_path / kind, rows, *([names] if names else []))
    given = {"format": "rows", "text_columns": "review", "tokenizer": "words"}
    files = dict.fromkeys(("trainpref", "validpref"), str(tmp_path / kind))
    preprocess(preprocess_config(**given, **files, destdir=str(tmp_path / "data")))
    folder = DataFolder.open(str(tmp_path / "data"))
    path = train("glue", folder)
    output = tmp_path / "out" / kind
    output.parent.mkdir()
    words = ["--output", str(output), "--device", "cpu"]
    assert main(["--path", path, "--input", str(tmp_path / kind), *words]) == 0
    expected = [row.split("\t")[1] for row in validated(path, folder).splitlines()[1:]]
    found = read_saved(output)
    assert [str(row["n"]) for row in found] == ["0", "1", "2", "3"]
    assert [row["review"] for row in found] == [text for text, _ in MOODS]
    if names:
        [file] = [output] if output.is_file() else output.glob("*.arrow")
        assert read_class_names(file) == names
        found = [{**row, "label": names["label"][row["label"]]} for row in found]
    assert [row["label"] for row in found] == [mood for _, mood in MOODS]
    assert [row["predicted_label"] for row in found] == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["a.jsonl", "saved"])
@pytest.mark.parametrize("label", ["option", "answer"])
def test_questions_in_rows_equal_those_of_validate(
    tmp_path, train, validated, predict, kind, label
):
    """Nested options as in CommonsenseQA, and answers as in SQuAD of Hugging Face."""
    rows = [
        {"id": f"r{n}", "body": TOWN, "asked": text, "label": "B",
         "choices": {"text": ["a cat", "dogs", text], "label": [*"ABC"]},
         "answers": {"text": [TOWN[:3]], "answer_start": [0]}}
        for n, text in enumerate(["Who?", "When was it?", "Where?"])
    ]  # fmt: skip
    KINDS[kind](tmp_path / kind, rows)
    named = {"option": "body,choices", "answer": "asked,body"}[label]
    given = {"format": "rows", "label_type": label, "text_columns": named, "tokenizer": "words"}
    files = dict.fromkeys(("trainpref", "validpref"), str(tmp_path / kind))
    preprocess(preprocess_config(**given, **files, destdir=str(tmp_path / "data")))
    folder = DataFolder.open(str(tmp_path / "data"))
    task, column = {"option": ("multiple_choice", "option"), "answer": ("squad", "answer")}[label]
    path = train(task, folder, **NARROW)
    output = tmp_path / "out.jsonl"
    words = ["--input", str(tmp_path / kind), "--output", str(output), "--device", "cpu"]
    assert main(["--path", path, *words]) == 0
    found = read_saved(output)
    assert [{name: row[name] for name in rows[0]} for row in found] == rows
    expected = validated(path, folder)
    if label == "option":
        wanted = [row.split(",")[1] for row in expected.splitlines()[1:]]
        assert [str(row[column]) for row in found] == wanted
    else:
        assert {row["id"]: row[column] for row in found} == json.loads(expected)


def test_outputs_of_columns_are_written_whole_or_not_at_all(classifier, predict, tmp_path):
    path, _ = classifier
    row, output = '{"sentence1": "cats", "sentence2": "dogs", "n": %s}\n', tmp_path / "a.parquet"
    words = ["--output", str(output), "--buffer-size", "1"]
    _, err = predict(path, row % 1 + row % '"x"', *words, name="a.jsonl", code=2)
    assert "a column must have one type" in err and not output.exists()
    predict(path, "", *words, name="a.jsonl")
    assert read_saved(output) == []
    words = ["--output", str(tmp_path), "--output-format", "dataset"]
    _, err = predict(path, row % 1, *words, name="a.jsonl", code=2)
    assert "--output must name a new folder" in err


CONLLU = (
    "# sent_id = 1\n1-2\tIbark\t_\t_\t_\t_\t_\t_\t_\t_\n1\tI\ti\tPRON\t_\t_\t_\t_\t_\t_\n"
    "2\tbark\tbark\tVERB\t_\tMood=Ind\t_\t_\t_\t_\n\n1\tthe\tthe\tDET\t_\t_\t_\t_\t_\t_\n"
    "2\tcat\tcat\tNOUN\t_\t_\t_\t_\t_\tGloss=a\n\n\n"
)


@pytest.fixture
def treebank(tmp_path, tagged):
    (tmp_path / "train.conllu").write_text(CONLLU.removesuffix("\n"))
    prefix = str(tmp_path / "train.conllu")
    return tagged(format="conllu", trainpref=prefix, validpref=prefix, unseen_tags="error")


@pytest.mark.slow
def test_tags_equal_those_of_validate(treebank, train, validated, predict):
    path = train("pos_tagging", treebank, **WORDS)
    untagged = CONLLU.replace("VERB", "_").replace("NOUN", "_")
    lines = predict(path, untagged, name="untagged.conllu")
    assert "\n".join(lines) + "\n" == validated(path, treebank) + "\n"
    windows = predict(path, "\ufeff" + untagged.replace("\n", "\r\n"), name="windows.conllu")
    assert windows == ["\ufeff" + lines[0] + "\r", *(f"{line}\r" for line in lines[1:])]
    [first, second] = predict(path, "I bark\nthe cat\n")
    assert first.split() == [line.split("\t")[3] for line in lines[2:4]]
    assert second.split() == [line.split("\t")[3] for line in lines[5:7]]


def test_spans_equal_those_of_validate(tagged, train, validated, predict):
    chunks = "the/B-NP dog/I-NP barks/B-VP ./O|a/B-NP bark/I-NP|dogs/B-NP bark/B-VP"
    folder = tagged(chunks, chunks)
    path = train("span_tagging", folder, **WORDS)
    tags = [row.split("\t")[2] for row in validated(path, folder).splitlines() if row]
    words = [sentence.replace("/", " ").split()[::2] for sentence in chunks.split("|")]
    text = "\n".join(map(" ".join, words)) + "\n"
    assert " ".join(predict(path, text)).split() == tags
    answers = [json.loads(line) for line in predict(path, text, "--output-format", "jsonl")]
    assert [tag for answer in answers for tag in answer["tags"]] == tags
    for answer in answers:
        for span in answer["spans"]:
            assert span["text"] == " ".join(answer["words"][span["start"] : span["end"]])
            assert answer["tags"][span["start"]].endswith(span["type"])
    assert sum(len(answer["spans"]) for answer in answers) > 0


@pytest.mark.slow
def test_order_does_not_depend_on_windows_and_batches(classifier, predict):
    path, _ = classifier
    text = "".join(f"cats {'sat ' * (7 * n % 11)}\tdogs {'run ' * (n % 3)}\n" for n in range(30))
    expected = predict(path, text, "--output-format", "jsonl")
    answers = [json.loads(line) for line in expected]
    assert [answer["line"] for answer in answers] == list(range(1, 31))
    learner = load_checkpoint(path)
    alone = [learner.predict([tuple(line.split("\t"))])[0] for line in text.splitlines()]
    exact = ["--precision", "fp32", "--output-format", "jsonl"]
    for words in (["--buffer-size", "4", "--batch-size", "3"], ["--max-tokens", "64"]):
        for line, prediction in zip(predict(path, text, *words, *exact), alone, strict=True):
            found = json.loads(line)
            assert found["label"] == prediction.label
            assert found["probabilities"] == pytest.approx(prediction.probabilities, abs=1e-6)


def test_lines_longer_than_max_tokens_are_answered(classifier, predict):
    path, _ = classifier
    text = "cats\tdogs\n" + "cats " * 40 + "\tdogs\n" + "dogs sat\tcats\n"
    exact = ["--precision", "fp32", "--output-format", "jsonl"]
    expected = [json.loads(line) for line in predict(path, text, *exact)]
    found = [json.loads(line) for line in predict(path, text, "--max-tokens", "9", *exact)]
    assert [answer["line"] for answer in found] == [1, 2, 3]
    for one, other in zip(found, expected, strict=True):
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=1e-6)


def test_answers_are_written_window_by_window(classifier, predict, monkeypatch, capsys):
    """The first window is answered before the second is read."""
    path, _ = classifier
    printed = []

    class Lines(io.BytesIO):
        def __next__(self):
            printed.append(capsys.readouterr().out.count("\n"))
            return super().__next__()

    class Pipe(io.TextIOWrapper):
        @property
        def buffer(self):
            return Lines(b"cats\tdogs\n" * 5)

    monkeypatch.setattr(sys, "stdin", Pipe(io.BytesIO()))
    assert main(["--path", path, "--buffer-size", "2"]) == 0
    assert printed == [0, 0, 2, 0, 2, 0]


def test_every_format_answers_every_line(classifier, predict, tmp_path):
    path, _ = classifier
    items = [("cats sat", "cats"), ("", ""), ("dogs", "the cat"), ("cats sat", "cats")]
    plain = "".join(f"{a}\t{b}\n" for a, b in items)
    rows = [row.split("\t") for row in predict(path, plain)]
    assert len(rows) == 4 and rows[0] == rows[3]
    table = "more\ttext2\tsentence1\n" + "".join(f"x\t{b}\t{a}\n" for a, b in items)
    header, *found = predict(path, table + "\n\n", name="a.tsv")
    assert header == "more\ttext2\tsentence1\tlabel\tprobability"
    assert [row.split("\t")[3:] for row in found] == rows
    objects = [{"id": f"n{n}", "sentence1": a, "text2": b} for n, (a, b) in enumerate(items)]
    lines = "".join(json.dumps(item) + "\n" for item in [*objects[:3], list(items[3])])
    answers = [json.loads(line) for line in predict(path, lines + "\n", name="a.jsonl")]
    assert [answer["label"] for answer in answers] == [row[0] for row in rows]
    assert [answer.get("id") for answer in answers] == ["n0", "n1", "n2", None]
    output = tmp_path / "out.jsonl"
    assert predict(path, plain, "--output", str(output)) == []
    written = [json.loads(line) for line in output.read_text().splitlines()]
    assert [answer["label"] for answer in written] == [row[0] for row in rows]


MALFORMED = [
    ("a.tsv", "sentence1\tlabel\na\tb\n", "a.tsv:1: the task reads 'sentence1' and 'sentence2', "
     "but 'sentence2' is missing among 'label' and 'sentence1'. Rename it, or give its name with "
     "--text-columns."),
    ("a.txt", "a\tb\nc\n", "a.txt:2: an item must have 2 parts, 'sentence1' and 'sentence2', but "
     "has 1. Separate the parts by tabs. If the first line names the columns, add --input-format "
     "tsv."),
    ("a.txt", '{"sentence1": "a"}\n', "a.txt:1: the line must be plain text, but is a JSON object. "
     "Add --input-format jsonl."),
    ("a.jsonl", '["a", "b"]\n["a", null]\n', "a.jsonl:2: 'sentence2' must be text, but is null."),
    ("a.csv", 'sentence1,sentence2\na,"b\n', "a.csv:2: the row that starts here is malformed"),
    ("a.jsonl", '["a", "b"]\n\n["a", "b"]\n', "a.jsonl:2: expected JSON"),
    ("a.txt", b"a\tb\xff\n", "a.txt:1: the line is not UTF-8 at byte 4. Convert it to UTF-8."),
    ("a.conllu", CONLLU, "CoNLL-U, as in a.conllu, requires a model trained with --task "
     "pos_tagging or span_tagging"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "message"), MALFORMED)
def test_malformed_input_is_one_line_and_exit_code_2(
    classifier, predict, tmp_path, name, text, message
):
    path, _ = classifier
    _, err = predict(path, text, name=name, code=2)
    assert message in err.replace(f"{tmp_path}/", "")
    assert len(err.strip().splitlines()) == 1


def test_lines_before_a_malformed_one_are_answered(classifier, predict):
    path, _ = classifier
    out, err = predict(path, "a\tb\nc\td\ne\n", code=2)
    assert out.count("\n") == 2 and "standard input:3: " in err


def test_malformed_lines_are_skipped_on_request(classifier, predict, capsys):
    path, _ = classifier
    rows = predict(path, "a\tb\nc\nd\te\n", "--on-malformed", "skip")
    assert rows[1] == "\t" and rows[0] != "\t" != rows[2]
    answers = predict(
        path, "a\tb\nc\n", "--on-malformed", "skip", "--output-format", "jsonl", "--json", "-"
    )
    events = [json.loads(line) for line in answers]
    assert [event["event"] for event in events] == ["answer", "answer", "end"]
    assert "2 parts" in events[1]["problem"] and events[2]["malformed"] == 1


def test_events_have_the_documented_keys(classifier, predict, repository):
    path, _ = classifier
    words = ["--on-malformed", "skip", "--json", "-"]
    text = '{"id": 1, "sentence1": "a", "sentence2": "b"}\n1\n'
    page = (repository / "docs/reference/json-output.md").read_text("utf-8")
    for line in predict(path, text, *words, name="a.jsonl"):
        record = json.loads(line)
        event = record.pop("event")
        first = ["glue", event] if event == "answer" else [event]
        required, optional = documented_keys(page, "predict", *first)
        assert required <= record.keys() <= required | optional


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CONLLU.rstrip("\n") + "\n", "a.conllu:7: a blank line must follow the last sentence"),
        (CONLLU.replace("cat", "\xe9").encode("latin1"), "a.conllu:7: expected UTF-8, found"),
    ],
)
def test_malformed_treebanks_are_named_by_line(treebank, train, predict, text, message):
    path = train("pos_tagging", treebank, **WORDS)
    assert message in predict(path, text, name="a.conllu", code=2)[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--text-columns", "a,b"], "--text-columns requires a table or JSON lines, but the input"),
        (["--output", "no/such/folder"], "no/such/folder: No such file or directory. Check"),
        (["--input-format", "tsv", "--text-columns", "a"], "--text-columns must name 2 columns"),
    ],
)
def test_options_that_cannot_work_are_rejected(classifier, capsys, monkeypatch, words, message):
    path, _ = classifier
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\tb\n")))
    assert main(["--path", path, *words]) == 2
    assert message in capsys.readouterr().err


def test_models_that_generate_are_for_toolkit_generate(config, tmp_path, predict):
    run(config(training__max_update=1))
    _, err = predict(str(tmp_path / "run"), "a [MASK]\n", code=2)
    assert err.strip().endswith("was trained with --task mlm. Use toolkit-generate fill-mask.")
