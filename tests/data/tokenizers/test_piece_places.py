from __future__ import annotations

from itertools import pairwise

import pytest

from toolkit.data.tokenizers.sentencepiece import characters, fields, pieces_of, varint


def test_pieces_are_read_from_what_the_library_serializes(tokenizer):
    text = "the house was, indeed"
    message = tokenizer._pieces.encode(text, out_type="serialized_proto")
    found = pieces_of(message)
    assert [i for i, _, _ in found] == tokenizer._pieces.encode(text)
    assert found[0][1] == 0 and found[-1][2] == len(text)
    assert all(a[2] == b[1] for a, b in pairwise(found))


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 1 << 40])
def test_numbers_come_in_groups_of_seven_bits(number):
    rest, spelled = number, []
    while rest > 127:
        spelled.append(rest % 128 + 128)
        rest //= 128
    message = bytes([9, *spelled, rest, 7])
    assert varint(message, 1) == (number, len(message) - 1)


def test_values_of_other_layouts_are_stepped_over():
    message = b"\x1d\x00\x00\x80\x3f" + b"\x10\x05"  # field 3 in four bytes, field 2 is 5
    assert list(fields(message)) == [(3, b"\x00\x00\x80\x3f"), (2, 5)]


def test_bytes_become_characters():
    assert characters("\u00e9ab", [(7, 0, 2), (8, 2, 4), (9, 4, 4)]) == [
        (7, 0, 1),
        (8, 1, 3),
        (9, 3, 3),
    ]
