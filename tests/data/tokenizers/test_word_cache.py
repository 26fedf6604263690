import pytest

from toolkit.data.tokenizers.word_cache import WordCache


def letters(words):
    return [[ord(letter) for letter in word] for word in words]


def test_word_cache_concatenates_the_ids_of_words():
    ids, lengths = WordCache(letters).encode_lines(["ab c", "", " c  ab"])
    assert "".join(map(chr, ids)) == "abccab"
    assert lengths.tolist() == [3, 0, 3]


def test_every_word_is_segmented_once():
    asked = []

    def segment(words):
        asked.extend(words)
        return letters(words)

    cache = WordCache(segment)
    cache.encode_lines(["a b a", "b"])
    cache.encode_lines(["b c"])
    assert asked == ["a", "b", "c"]
    cache = WordCache(letters)
    cache.encode_lines(["a b"])
    cache._segment = None  # nothing is new: the tokenizer, which may start a thread, is left alone
    assert cache.encode_lines(["b a"])[0].tolist() == [ord("b"), ord("a")]


def test_failed_segmentation_leaves_no_word_behind():
    def segment(words):
        if "bad" in words:
            raise ValueError
        return letters(words)

    cache = WordCache(segment)
    cache.encode_lines(["known"])
    with pytest.raises(ValueError):
        cache.encode_lines(["hello bad"])
    for word in ("hello", "world", "hello", "known"):
        assert "".join(map(chr, cache.encode_lines([word])[0])) == word


def test_word_cache_of_no_lines_is_empty():
    ids, lengths = WordCache(letters).encode_lines([])
    assert (len(ids), len(lengths)) == (0, 0)


def test_full_cache_is_cleared(monkeypatch):
    monkeypatch.setattr("toolkit.data.tokenizers.word_cache.MAX_CACHED_WORDS", 3)
    cache = WordCache(letters)
    for _ in range(3):
        ids, _ = cache.encode_lines(["ab cd ef gh ij"])
        assert "".join(map(chr, ids)) == "abcdefghij"
