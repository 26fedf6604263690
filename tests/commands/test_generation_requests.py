"""Lines and items, as all ranks see them."""

from __future__ import annotations

import contextlib

from toolkit.commands.generate_text import generate_outputs
from toolkit.commands.generation_requests import check_request, read_requests, renumber
from toolkit.config.commands.generate import TranslateConfig
from toolkit.distributed import World
from toolkit.generation.output import GeneratedText, GenerationOutput
from toolkit.generation.requests import EncodedLine, GenerationRequest
from toolkit.tasks.text_generation import TextGenerator


class Echo(TextGenerator):
    """Answers each sentence with itself."""

    def __init__(self):
        self.c, self.decoder_only = (
            TranslateConfig(path=["run"], batch_size=2, max_tokens=100),
            False,
        )

    def encode_line(self, line):
        return EncodedLine([len(line)] * len(line), [], line)

    def generate(self, items):
        return [
            GenerationOutput(i.number, i.text, [GeneratedText(i.text, -0.5, [-1.0])], i.reference)
            for i in items
        ]


class Two(World):
    """One of two ranks; `heard` is what the other one tells."""

    def all_gather(self, text):
        self.__dict__["told"] = text
        heard = self.__dict__.get("heard", "[]")
        return [text, heard] if self.rank == 0 else [heard, text]


def test_two_ranks_answer_every_sentence_once_and_in_order():
    items = [GenerationRequest(n, "x" * (n % 4 + 1), [0] * (n % 4 + 1)) for n in range(1, 8)]
    items[2] = GenerationRequest(3, "", note="empty")
    first, second = Two(rank=0, size=2), Two(rank=1, size=2)
    with contextlib.suppress(AssertionError):  # alone it has half of the answers
        list(generate_outputs(iter(items), Echo(), 100, second, lambda count: None))
    first.__dict__["heard"] = second.__dict__["told"]
    ((*replies,),) = generate_outputs(iter(items), Echo(), 100, first, lambda count: None)
    assert [reply.number for reply in replies] == [1, 2, 3, 4, 5, 6, 7]
    assert [reply.best for reply in replies] == [item.text for item in items]
    assert replies[2].note == "empty" and replies[2].hypotheses == []


class Broadcast(World):
    def broadcast(self, text):
        return text


def test_lines_that_the_first_rank_reads_are_those_of_all():
    lines = [b"ab\r\n", b"", b"c\xff\n", b"defg"]
    want = list(read_requests(lines, Echo(), World(), 2))
    assert list(read_requests(iter(lines), Echo(), Broadcast(size=2), 2)) == want
    assert [item.number for item in want] == [1, 2, 3, 4]
    assert want[2].note == "not UTF-8 at byte 2"


def test_an_item_without_a_source_is_empty_whatever_its_reference_is():
    sentences = Echo()
    sentences.check_lengths = lambda source, target: None
    blank = GenerationRequest(1, "", [], [5, 6], "a reference")
    found = check_request(blank, sentences)
    assert (found.note, found.target, found.reference) == ("empty", [], "a reference")
    sentences.decoder_only = True
    assert check_request(blank, sentences) == blank


def test_items_of_several_splits_are_numbered_through():
    found = renumber([GenerationRequest(0, "a"), GenerationRequest(0, "b")])
    assert [item.number for item in found] == [1, 2]
