"""Requests from lines and items on several ranks."""

from __future__ import annotations

import contextlib

from toolkit.commands.generate import generate_outputs
from toolkit.commands.text_io import read_requests
from toolkit.config.commands.generate import TranslateConfig
from toolkit.distributed import World
from toolkit.generation.generate import GenerationRequest
from toolkit.generation.output import GeneratedText, GenerationOutput
from toolkit.tasks.text_generation import TextGenerator


class Echo(TextGenerator):
    """Generates each sentence itself."""

    def __init__(self):
        self.c = TranslateConfig(path=["run"], batch_size=2, max_tokens=100)
        self.decoder_only = False

    def encode_line(self, line):
        return GenerationRequest(0, line, [len(line)] * len(line))

    def generate(self, items):
        return [
            GenerationOutput(i.number, i.text, [GeneratedText(i.text, -0.5, [-1.0])], i.reference)
            for i in items
        ]


class Two(World):
    """One of two ranks; `received` is what the other one sends."""

    def all_gather(self, text):
        self.__dict__["sent"] = text
        received = self.__dict__.get("received", "[]")
        return [text, received] if self.rank == 0 else [received, text]


def test_two_ranks_generate_every_sentence_once_in_order():
    items = [GenerationRequest(n, "x" * (n % 4 + 1), [0] * (n % 4 + 1)) for n in range(1, 8)]
    items[2] = GenerationRequest(3, "", note="empty")
    first, second = Two(rank=0, size=2), Two(rank=1, size=2)
    with contextlib.suppress(AssertionError):  # alone it has half of the outputs
        list(generate_outputs(iter(items), Echo(), 100, second, lambda count: None))
    first.__dict__["received"] = second.__dict__["sent"]
    ((*outputs,),) = generate_outputs(iter(items), Echo(), 100, first, lambda count: None)
    assert [output.number for output in outputs] == [1, 2, 3, 4, 5, 6, 7]
    assert [output.best for output in outputs] == [item.text for item in items]
    assert outputs[2].note == "empty" and outputs[2].hypotheses == []


class Broadcast(World):
    def broadcast(self, text):
        return text


def test_read_requests_broadcasts_lines_of_the_first_rank():
    lines = [b"ab\r\n", b"", b"c\xff\n", b"defg"]
    expected = list(read_requests(lines, Echo(), World(), 2))
    assert list(read_requests(iter(lines), Echo(), Broadcast(size=2), 2)) == expected
    assert [item.number for item in expected] == [1, 2, 3, 4]
    assert expected[2].note == "not UTF-8 at byte 2"
