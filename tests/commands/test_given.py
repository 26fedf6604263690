"""Lines and items, as all ranks see them."""

from __future__ import annotations

import contextlib

from toolkit.commands.generate_text import checked, read, renumbered, replies_of
from toolkit.config.commands.generate import GenerateConfig
from toolkit.distributed import World
from toolkit.generation.output import Reply, Text
from toolkit.generation.requests import Coded, Item
from toolkit.tasks.text_generation import Sentences


class Echo(Sentences):
    """Answers each sentence with itself."""

    def __init__(self):
        self.c, self.alone = GenerateConfig(path=["run"], batch_size=2, max_tokens=100), False

    def code(self, line):
        return Coded([len(line)] * len(line), [], line)

    def replies(self, items):
        return [Reply(i.number, i.text, [Text(i.text, -0.5, [-1.0])], i.reference) for i in items]


class Two(World):
    """One of two ranks; `heard` is what the other one tells."""

    def gather(self, text):
        self.__dict__["told"] = text
        heard = self.__dict__.get("heard", "[]")
        return [text, heard] if self.rank == 0 else [heard, text]


def test_two_ranks_answer_every_sentence_once_and_in_order():
    items = [Item(n, "x" * (n % 4 + 1), [0] * (n % 4 + 1)) for n in range(1, 8)]
    items[2] = Item(3, "", note="empty")
    first, second = Two(rank=0, size=2), Two(rank=1, size=2)
    with contextlib.suppress(AssertionError):  # alone it has half of the answers
        list(replies_of(iter(items), Echo(), 100, second, lambda count: None))
    first.__dict__["heard"] = second.__dict__["told"]
    ((*replies,),) = replies_of(iter(items), Echo(), 100, first, lambda count: None)
    assert [reply.number for reply in replies] == [1, 2, 3, 4, 5, 6, 7]
    assert [reply.best for reply in replies] == [item.text for item in items]
    assert replies[2].note == "empty" and replies[2].texts == []


class Broadcast(World):
    def broadcast(self, text):
        return text


def test_lines_that_the_first_rank_reads_are_those_of_all():
    lines = [b"ab\r\n", b"", b"c\xff\n", b"defg"]
    want = list(read(lines, Echo(), World(), 2))
    assert list(read(iter(lines), Echo(), Broadcast(size=2), 2)) == want
    assert [item.number for item in want] == [1, 2, 3, 4]
    assert want[2].note == "not UTF-8 at byte 2"


def test_an_item_without_a_source_is_empty_whatever_its_reference_is():
    sentences = Echo()
    sentences.check = lambda source, target: None
    blank = Item(1, "", [], [5, 6], "a reference")
    found = checked(blank, sentences)
    assert (found.note, found.target, found.reference) == ("empty", [], "a reference")
    sentences.alone = True
    assert checked(blank, sentences) == blank


def test_items_of_several_splits_are_numbered_through():
    found = renumbered([Item(0, "a"), Item(0, "b")])
    assert [item.number for item in found] == [1, 2]
