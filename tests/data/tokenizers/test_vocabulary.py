import pytest

from toolkit.common.errors import ToolkitError
from toolkit.data.tokenizers.vocabulary import (
    WORD_REST,
    WORD_START,
    Vocabulary,
    append_special,
    read_symbols,
    write_symbols,
)


def test_special_tokens_follow_the_pieces_as_in_chang_et_al(vocabulary):
    assert vocabulary.symbols[10:] == ["[CLS]", "[SEP]", "<pad>", "[MASK]"]
    assert len(vocabulary) == 14
    assert (vocabulary.cls, vocabulary.sep, vocabulary.pad, vocabulary.mask) == (10, 11, 12, 13)
    assert sorted(vocabulary.special) == [10, 11, 12, 13]


def test_the_fingerprint_depends_on_symbols_order_and_roles():
    def fingerprint(symbols, **changed):
        roles = {"pad": 0, "cls": 1, "sep": 2, "mask": 3, "unk": 0, **changed}
        return Vocabulary(symbols, **roles).fingerprint

    found = {
        fingerprint("abcd"),
        fingerprint("abdc"),
        fingerprint("abcde"),
        fingerprint("abcd", pad=1),
    }
    assert len(found) == 4
    assert fingerprint("abcd") == fingerprint("abcd")


def test_role_outside_the_symbols_is_rejected():
    with pytest.raises(ToolkitError, match=r"the id of mask must lie in 0 .. 1, but is 2"):
        Vocabulary("ab", pad=0, cls=0, sep=0, mask=2, unk=0)


def test_pieces_named_like_special_tokens_are_rejected():
    with pytest.raises(ToolkitError, match=r"must not contain \[MASK\]"):
        append_special(["<unk>", "[MASK]"], unk=0)


def test_word_starts_are_the_pieces_with_the_mark(vocabulary):
    assert vocabulary.starts_word[:4].tolist() == [False, True, False, True]
    assert not vocabulary.starts_word[10:].any()


def test_the_column_type_is_the_narrowest_that_holds_every_id(vocabulary):
    assert vocabulary.dtype == "<u2"
    assert append_special([str(i) for i in range(70000)], unk=0).dtype == "<i4"


@pytest.mark.parametrize("symbol", ["a", "\n", "\\n", "\\", "\r\n", "\\\\n", "\u2028", "", " "])
def test_any_symbol_survives_the_symbols_file(symbol):
    assert read_symbols(write_symbols(["x", symbol, "y"])) == ["x", symbol, "y"]


@pytest.mark.parametrize(
    ("mark", "symbols", "displayed"),
    [
        (WORD_START, ["▁cat", "s", ".", "▁"], ["cat", "##s", ".", "(space)"]),
        (WORD_REST, ["cat", "##s", "."], ["cat", "##s", "."]),
        ("", ["cat", "##s", "."], ["cat", "##s", "."]),
    ],
)
def test_display_symbol_drops_the_word_mark_and_marks_continuations(mark, symbols, displayed):
    vocabulary = Vocabulary(symbols, pad=0, cls=0, sep=0, mask=0, unk=0, mark=mark)
    assert [vocabulary.display_symbol(symbol) for symbol in symbols] == displayed
