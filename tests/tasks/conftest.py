"""A little tagged treebank, for the tests of the tasks on it."""

import json

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder

TRAIN = "the/DET dog/NOUN barks/VERB ./PUNCT|the/DET bark/NOUN ./PUNCT|I/PRON bark/VERB ./PUNCT"
VALID = "I/PRON bark/VERB ./PUNCT|the/DET cat/NOUN barks/VERB loudly/ADV ./PUNCT|dog/NOUN"


def columns(text):
    sentences = (s.replace(" ", "\n").replace("/", "\t") for s in text.split("|"))
    return "\n\n".join(sentences) + "\n"


def make_tagged(tmp_path):
    """A folder of tagged text; options are those of toolkit-preprocess."""

    def make(train=TRAIN, valid=VALID, **options):
        for split, text in (("train", train), ("valid", valid)):
            (tmp_path / f"{split}.txt").write_text(columns(text))
        given = {f"{split}pref": str(tmp_path / f"{split}.txt") for split in ("train", "valid")}
        config = preprocess_config(**{
            "format": "columns", "destdir": str(tmp_path / "data"), "overwrite": True,
            "unseen_tags": "wrong", **given, **options,
        })  # fmt: skip
        preprocess(config)
        return DataFolder.open(config.destdir)

    return make


PAIRS = "index\tsentence1\tsentence2\tlabel\n"
TABLES = {
    "RTE": {
        "train": PAIRS
        + "0\tthe cat sat\ta cat sat\tentailment\n1\tdogs run\tcats run\tnot_entailment\n" * 4,
        "dev": PAIRS + "0\tcats run\ta cat\tentailment\n1\tdogs\tcats\tnot_entailment\n",
        "test": "index\tsentence1\tsentence2\n1\tcats sat\tcats\n0\tdogs sat\tthe dogs\n",
    },
    "STS-B": {
        "train": "sentence1\tsentence2\tscore\n"
        + "the cat sat\ta cat sat\t3.8\ndogs run\tcats\t0\n" * 4
    },
}


def make_glue(tmp_path):
    """A folder of one of GLUE's tasks; options are those of toolkit-preprocess."""

    def make(task="RTE", **options):
        (tables := tmp_path / f"{task}-tables").mkdir(exist_ok=True)
        for name, text in TABLES[task].items():
            (tables / f"{name}.tsv").write_text(text)
        given = {"format": "glue", "glue_task": task, "trainpref": str(tables), "vocab_size": 30}
        where = {"destdir": str(tmp_path / f"{task}-data"), "overwrite": True}
        preprocess(preprocess_config(**{**given, **where, **options}))
        return DataFolder.open(where["destdir"])

    return make


TOWN = "The old mill was built in 1905 by Anna Bell. Later a cook, Jose, came to the mill."


def asked(number, question, *answers, **more):
    found = [{"text": text, "answer_start": TOWN.find(text)} for text in answers]
    return {"id": f"q{number}", "question": question, "answers": found, **more}


ASKED = [
    asked(1, "Who built the mill?", "Anna Bell", "Anna"),
    asked(2, "When was it built?", "1905"),
    asked(3, "Who cooks?", "Jose"),
]
NOTHING = [asked(4, "Who painted the cook?", is_impossible=True)]
SWAG = "sent1,sent2,ending0,ending1,ending2,label\n" + (
    "the cat sat,it,saw dogs,ran,far far away,1\ndogs run,they,sat,on a mat,run,2\n" * 4
)
RACE = {
    "article": "the cat sat on a mat and saw dogs",
    "questions": ["who sat", "the cat saw _"],
    "options": [["dogs", "the cat"], ["dogs", "cats"]],
    "answers": ["B", "A"],
}


def make_questions(tmp_path):
    """A folder of questions, with answers to choose (race, swag) or to find (squad)."""

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    def make(form="squad", asked=ASKED, context=TOWN, version="1.1", bare=(), **options):
        paragraphs = [{"context": context, "qas": list(asked)}]
        squad = json.dumps({"version": version, "data": [{"paragraphs": paragraphs}]})
        files = {
            "squad": ("town.json", squad),
            "swag": ("swag.csv", SWAG),
            "race": ("high/1.txt", json.dumps(RACE)),
        }
        path = write(*files[form])
        if form == "race":
            path += "," + write("middle/2.txt", json.dumps(RACE))
        given = {"format": form, "trainpref": path, "validpref": path, "tokenizer": "words"}
        if bare:
            held = {"version": version, "data": [{"paragraphs": [{"context": TOWN, "qas": bare}]}]}
            given["testpref"] = write("test.json", json.dumps(held))
        where = {"destdir": str(tmp_path / f"{form}-data"), "overwrite": True, "workers": 1}
        preprocess(preprocess_config(**{**given, **where, "on_malformed": "skip", **options}))
        return DataFolder.open(where["destdir"])

    return make


@pytest.fixture
def tagged(tmp_path):
    return make_tagged(tmp_path)


@pytest.fixture
def glue(tmp_path):
    return make_glue(tmp_path)


@pytest.fixture
def questions(tmp_path):
    return make_questions(tmp_path)


@pytest.fixture(scope="session")
def folders(tmp_path_factory, data, parallel):
    """A data folder for each kind of data, made when it is first asked for."""
    make = {
        "glue": lambda path: make_glue(path)(),
        "regression": lambda path: make_glue(path)("STS-B"),
        "squad": lambda path: make_questions(path)(),
        "multiple_choice": lambda path: make_questions(path)("swag"),
        "pos_tagging": lambda path: make_tagged(path)(),
        "subword_tagging": lambda path: make_tagged(path)(tokenizer_from=str(data)),
        "translation": lambda path: DataFolder.open(parallel),
    }
    found = {}

    def get(kind):
        if kind not in found:
            open_data = make.get(kind, lambda path: DataFolder.open(data))
            found[kind] = open_data(tmp_path_factory.mktemp(kind))
        return found[kind]

    return get


KINDS = {"regression": "glue", "subword_tagging": "pos_tagging"}
"""Kind of data -> task, if it has another name."""
