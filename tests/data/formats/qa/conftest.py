"""Little questions in the layouts of SQuAD, RACE and SWAG, and data folders made of them."""

import json

import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder

TEXT = "The Caf\u00e9 was founded in 1905 by Anna  Bell. Its cook,\nJos\u00e9, came later."


def make_question(number, question, *answers, text=TEXT, **more):
    found = [{"text": answer, "answer_start": text.find(answer)} for answer in answers]
    return {"id": f"q{number}", "question": question, "answers": found, **more}


def make_squad(*questions, context=TEXT, version="1.1"):
    paragraph = {"context": context, "qas": list(questions)}
    return {"version": version, "data": [{"title": "A town", "paragraphs": [paragraph]}]}


FOUNDER = make_question(1, "Who founded it?", "Anna  Bell", "Anna")
YEAR = make_question(2, "When was it founded?", "1905")
COOK = make_question(3, "Who cooks?", "Jos\u00e9")
SQUAD = make_squad(FOUNDER, YEAR, COOK)
NOTHING = make_question(4, "Who painted it?", is_impossible=True)

RACE = {
    "article": "Tom has a red kite.\nHe flies it on Sundays.",
    "questions": ["What does Tom have?", "Tom flies on _ .", "Who is Tom?"],
    "options": [["a kite", "a dog"], ["Sundays", "Mondays"], ["a boy", "a cook"]],
    "answers": ["A", "A", "B"],
}
SWAG = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,label\n"
    '0,v,1,"A cat, sits. It",A cat sits.,It,gold,sleeps.,"sings, loud.",flies.,0\n'
    "1,v,2,A dog. He,A dog.,He,gold,barks.,reads.,counts.,2\n"
)


@pytest.fixture
def write_files(tmp_path):
    """Writes what is given, objects as JSON, and gives the path."""

    def write(name, content, encoding="utf-8"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str | bytes) else json.dumps(content)
        path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
        return path

    return write


@pytest.fixture
def folder(write_files, tmp_path):
    """Preprocesses questions of one format for all splits and opens the result."""

    def make(train, valid=None, test=None, *, format_name="squad", name="data", **options):
        given = {}
        for split, content in (("train", train), ("valid", valid), ("test", test)):
            if content is not None:
                ending = {"swag": "csv", "squad": "json"}.get(format_name, "txt")
                given[f"{split}pref"] = str(write_files(f"{name}-{split}.{ending}", content))
        given |= {"destdir": str(tmp_path / name), "overwrite": True, "workers": 1}
        preprocess(
            preprocess_config(**{"format": format_name, "tokenizer": "words", **given, **options})
        )
        return DataFolder.open(tmp_path / name)

    return make
