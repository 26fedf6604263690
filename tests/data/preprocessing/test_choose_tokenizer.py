import pytest

from tests.helpers.preprocessing import preprocess_config
from toolkit.common.errors import ToolkitError
from toolkit.data.preprocess import preprocess
from toolkit.data.storage.data_folder import DataFolder

TEXT = "The old house\nthe river and the House\n"


@pytest.fixture
def folder_of(tmp_path, text_file):
    def make(name="data", **options):
        config = {"trainpref": str(text_file(TEXT)), "workers": 1, **options}
        preprocess(preprocess_config(destdir=str(tmp_path / name), **config))
        return DataFolder.open(tmp_path / name)

    return make


def test_words_are_counted_and_the_most_frequent_kept(folder_of, capsys):
    folder = folder_of(tokenizer="words", lowercase=True, min_count=2)
    assert folder.vocabulary.symbols[4:] == ["the", "house", "<mask>"]
    output = capsys.readouterr().err
    assert "counted 8 words, 5 different ones" in output and "the 2 kept are 62.50%" in output


def test_words_counted_by_two_workers_are_the_same(folder_of, monkeypatch):
    monkeypatch.setattr("toolkit.data.preprocessing.segmentation.PART_BYTES", 5)
    folders = [folder_of(f"{w}", tokenizer="words", workers=w) for w in (1, 2)]
    assert folders[0].fingerprint == folders[1].fingerprint


def test_dictionary_of_fairseq_is_used(folder_of, text_file):
    path = text_file("the 3\nHouse 1\n", "dict.txt")
    folder = folder_of(srcdict=str(path))
    assert folder.vocabulary.symbols[4:] == ["the", "House", "<mask>"]
    assert folder.tokenizer.encode("the old House") == [4, 3, 5]


def test_wordpiece_vocabulary_is_used(folder_of, text_file):
    symbols = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "house", "riv", "##er"]
    path = text_file("\n".join(symbols), "vocab.txt")
    folder = folder_of(wordpiece_vocab=str(path), lowercase=True)
    assert folder.tokenizer.encode("The River HOUSE and") == [5, 7, 8, 6, 1]


def test_wordpiece_is_learned(folder_of, capsys):
    folder = folder_of(tokenizer="wordpiece", lowercase=True, vocab_size=40)
    assert folder.tokenizer.decode(folder.tokenizer.encode("the river house")) == "the river house"
    assert "WordPiece pieces in" in capsys.readouterr().err


def test_vocabulary_without_mask_is_rejected(folder_of, tmp_path):
    (tmp_path / "tagged.txt").write_text("the DET\nhouse NOUN\n\n")
    tagged = folder_of("tagged", format="columns", trainpref=str(tmp_path / "tagged.txt"))
    with pytest.raises(ToolkitError, match=r"must have \[CLS\], \[SEP\] and \[MASK\], but that of"):
        folder_of(tokenizer_from=str(tagged.path))


@pytest.mark.parametrize("tokenizer", ["words", "wordpiece"])
def test_tokenizer_from_keeps_all_settings(folder_of, tokenizer):
    first = folder_of(tokenizer=tokenizer, lowercase=True, vocab_size=40)
    again = folder_of("again", tokenizer_from=str(first.path))
    assert again.fingerprint == first.fingerprint


def test_tokenizer_from_a_save_folder_is_that_of_its_best_checkpoint(folder_of, tmp_path):
    (tmp_path / "run").mkdir()
    for link, text in (("checkpoint_last", "other\n"), ("checkpoint_best", TEXT)):
        (tmp_path / f"{link}.txt").write_text(text)
        found = folder_of(link, tokenizer="words", trainpref=str(tmp_path / f"{link}.txt"))
        (tmp_path / "run" / link).symlink_to(found.path)
    assert folder_of("again", tokenizer_from=str(tmp_path / "run")).fingerprint == found.fingerprint


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"tokenizer_from": "nowhere"},
            "nowhere/tokenizer_config.json must be readable, but is not: No such file",
        ),
        ({"srcdict": "nowhere"}, "No such file: nowhere"),
        ({"wordpiece_vocab": "nowhere"}, "No such file: nowhere"),
        (
            {"trainpref": "", "tokenizer": "words"},
            "no training text .* Give --trainpref, --srcdict or --tokenizer-from",
        ),
    ],
)
def test_missing_vocabulary_is_rejected(folder_of, text_file, options, message):
    options = {"validpref": str(text_file(TEXT)), **options}
    with pytest.raises(ToolkitError, match=message):
        folder_of(**options)
