import json

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.sentencepiece import SentencePieces
from toolkit.data.tokenizers.tokenizer import KINDS, Codec
from toolkit.data.tokenizers.word_level import Dictionary


def set_kind(folder, **changed):
    path = folder / "codec.json"
    settings = {**json.loads(path.read_text()), **changed}
    path.write_text(json.dumps({k: v for k, v in settings.items() if v is not None}))


def test_settings_without_a_kind_are_those_of_sentencepiece(codec, tmp_path):
    codec.save(tmp_path)
    set_kind(tmp_path, kind=None)
    assert isinstance(Codec.load(tmp_path), SentencePieces)


def test_a_kind_that_nobody_knows_is_answered_with_the_known_ones(codec, tmp_path):
    codec.save(tmp_path)
    set_kind(tmp_path, kind="bytes")
    with pytest.raises(ToolkitError, match=f"must be one of {', '.join(KINDS)}, but is 'bytes'"):
        Codec.load(tmp_path)


@pytest.mark.parametrize("missing", ["dict.txt", "codec.json"])
def test_a_missing_file_is_named_with_all_that_the_kind_needs(tmp_path, missing):
    Dictionary.build({"a": 1}, size=1).save(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(ToolkitError, match=r"must hold a readable dict.txt, codec.json"):
        Codec.load(tmp_path)


@pytest.mark.parametrize("special", [None, {}, {"pad": 1}, [1], {"pad": "x"}])
def test_special_symbols_must_be_said(tmp_path, special):
    Dictionary.build({"a": 1}, size=1).save(tmp_path)
    set_kind(tmp_path, special=special)
    with pytest.raises(ToolkitError, match=r"must hold a readable dict.txt, codec.json"):
        Codec.load(tmp_path)


def test_a_codec_writes_the_files_that_it_names(codec, tmp_path):
    for number, kind in enumerate([codec, Dictionary.build({"a": 1}, size=1)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        kind.save(folder)
        assert sorted(path.name for path in folder.iterdir()) == sorted(kind.files)
