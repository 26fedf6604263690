"""Folders as fairseq-preprocess writes them, put together from the description of the format."""

import struct

CODES = {"u1": 1, "i1": 2, "i2": 3, "i4": 4, "i8": 5, "u2": 8, "u4": 9, "u8": 10}
FORMATS = {"u1": "B", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u2": "H", "u4": "I", "u8": "Q"}
BOS, PAD, EOS, UNK = range(4)


def index_bytes(lengths, dtype="u2"):
    """9 bytes of magic, version, type, number of items; lengths in values; places in bytes."""
    width, place, places = int(dtype[1]), 0, []
    for length in lengths:
        places.append(place)
        place += length * width
    head = b"MMIDIDX\x00\x00" + struct.pack("<Q", 1) + struct.pack("<B", CODES[dtype])
    counts = struct.pack("<Q", len(lengths)) + struct.pack(f"<{len(lengths)}i", *lengths)
    return head + counts + struct.pack(f"<{len(lengths)}q", *places)


def value_bytes(items, dtype="u2"):
    values = [value for item in items for value in item]
    return struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def write_items(stem, items, dtype="u2"):
    """One .bin and one .idx; the ids are written as they are."""
    stem.with_name(stem.name + ".bin").write_bytes(value_bytes(items, dtype))
    stem.with_name(stem.name + ".idx").write_bytes(index_bytes([len(i) for i in items], dtype))


def write_folder(folder, words, splits, dtype="u2", language=None):
    """dict.txt, and each split's lines of words, each line ended by </s>, also a blank one.

    With `language`, dict.LANGUAGE.txt and the split's name as in train.de-en.de.
    """
    folder.mkdir(exist_ok=True)
    listed = "".join(f"{word} {100 - number}\n" for number, word in enumerate(words))
    name = f"dict.{language}.txt" if language else "dict.txt"
    (folder / name).write_text(listed, encoding="utf-8")
    ids = {word: 4 + number for number, word in enumerate(words)}
    for name, lines in splits.items():
        items = [[*(ids.get(word, UNK) for word in line.split()), EOS] for line in lines]
        write_items(folder / name, items, dtype)
    return folder


def write_pairs(folder, source, target, splits, pair="de-en"):
    """A parallel folder: words of both dictionaries, and pairs of lines by split."""
    for number, words in enumerate((source, target)):
        language = pair.split("-")[number]
        sides = {
            f"{split}.{pair}.{language}": [sides[number] for sides in pairs]
            for split, pairs in splits.items()
        }
        write_folder(folder, words, sides, language=language)
    return folder
