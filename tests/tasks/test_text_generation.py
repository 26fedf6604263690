"""Requests of text generation, and what becomes of its hypotheses."""

from __future__ import annotations

import dataclasses

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.commands.generate import ContinueConfig, TranslateConfig
from toolkit.config.sections import ComponentConfig
from toolkit.data.tokenizers.tokenizer import ParallelTokenizer, Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary
from toolkit.data.tokenizers.word_level import FAIRSEQ_SPECIAL, WordLevelTokenizer
from toolkit.generation.generate import GenerationRequest
from toolkit.generation.hypothesis import Hypothesis
from toolkit.models.interface import Sizes
from toolkit.tasks.build import build_learner
from toolkit.tasks.text_generation import TextGenerator

WORDS = Vocabulary(
    ["<pad>", "[CLS]", "[SEP]", "[MASK]", "<unk>", *"abcde"], pad=0, cls=1, sep=2, mask=3, unk=4
)


class Letters(Tokenizer):
    """A letter is a token."""

    def __init__(self):
        super().__init__(WORDS, lowercase=False)

    def encode(self, text):
        return [WORDS.symbols.index(letter) for letter in text if letter.strip(" \u200b")]

    def decode(self, ids):
        return "".join(WORDS.symbols[i] for i in ids)


Letters.__abstractmethods__ = frozenset()
Letters.target = Letters()


def make_generator(arch="transformer_tiny", task="translation", **options):
    config = TranslateConfig if task == "translation" else ContinueConfig
    return TextGenerator([learner(arch, task)], config(**{"path": ["run"], "beam": 2, **options}))


def learner(arch, task, tokenizer=None):
    entry = ARCHITECTURES[arch]
    config = dataclasses.replace(entry.config, positions="learned", max_positions=6)
    sizes = Sizes(tokens=len(WORDS), targets=len(WORDS))
    model = build_learner(
        ComponentConfig(arch, config), ComponentConfig(task, TASKS[task].config), sizes
    ).eval()
    model.tokenizer = tokenizer or Letters()
    return model


def test_lines_become_requests_with_the_source_and_the_forced_prefix():
    request = GenerationRequest(3, "abc", [5, 6, 7], [8, 9])
    assert make_generator().read_line(3, b"abc\r\n") == request._replace(target=[])
    assert make_generator(prefixes=True).read_line(3, b"abc\tde") == request
    scorer = make_generator(score_reference=True)
    assert scorer.read_line(3, b"abc\tde") == request._replace(reference="de")


@pytest.mark.parametrize(
    ("options", "line", "message"),
    [
        ({}, " ", "empty"),
        ({}, "abcdea", "7 tokens, more than the model's 6 positions"),
        ({"max_tokens": 3}, "abcd", "5 tokens, more than --max-tokens 3"),
        ({"prefixes": True}, "abc", "no tab"),
        ({"prefixes": True}, "abc\tabcdea", "a prefix of 6 tokens, more than the maximum of 5"),
        ({"score_reference": True}, "abc\tabcdea", "7 tokens, more than the model's 6"),
    ],
)
def test_lines_that_cannot_be_processed_get_a_note(options, line, message):
    request = make_generator(**options).read_line(1, line.encode())
    assert request.note.startswith(message) and not request.source


def test_language_model_generates_no_further_than_its_positions():
    model = make_generator("transformer_lm_tiny", "language_modeling")
    assert model.max_new_tokens(2) == 3
    assert model.read_line(1, b"abc") == GenerationRequest(1, "abc", [5, 6, 7])
    scorer = make_generator("transformer_lm_tiny", "language_modeling", score_reference=True)
    assert scorer.read_line(1, b"abc") == GenerationRequest(1, "abc", [], [5, 6, 7])


def test_ensembles_reject_other_vocabularies_and_directions():
    def pair(word, source, target):
        words = WordLevelTokenizer.from_symbols([*FAIRSEQ_SPECIAL, word, *"abcd"])
        tokenizer = ParallelTokenizer(words, None, source_lang=source, target_lang=target)
        return learner("transformer_tiny", "translation", tokenizer)

    c = TranslateConfig(path=["one", "other"], beam=2)
    one = pair("cat", "en", "de")
    TextGenerator([one, pair("cat", "en", "de")], c)
    with pytest.raises(
        ToolkitError, match="one task and one tokenizer, but their vocabularies differ"
    ):
        TextGenerator([one, pair("dog", "en", "de")], c)
    with pytest.raises(ToolkitError, match="but one translates en-de, the other de-en"):
        TextGenerator([one, pair("cat", "de", "en")], c)


def test_beam_is_limited_by_the_vocabulary_size():
    with pytest.raises(ToolkitError, match=r"at most the number of symbols .* 7, but is 8"):
        make_generator(beam=8)


class Words(Letters):
    """A letter is a word."""

    def decode(self, ids):
        return " ".join(WORDS.symbols[i] for i in ids)


Words.__abstractmethods__ = frozenset()
Words.target = Words()


@pytest.mark.parametrize(("tokenizer", "space"), [(Letters(), ""), (Words(), " ")])
def test_text_after_a_prompt_starts_with_a_space_unless_it_continues_a_word(tokenizer, space):
    generator = TextGenerator(
        [learner("transformer_lm_tiny", "language_modeling", tokenizer)],
        ContinueConfig(path=["run"], min_len=2),
    )
    words = Hypothesis([WORDS.symbols.index(letter) for letter in "de"], 0, [])
    after = GenerationRequest(1, "ab", tokenizer.encode("ab"))
    assert generator.decode(after, words) == space + tokenizer.decode(words.tokens)
    assert generator.decode(GenerationRequest(1, ""), words) == tokenizer.decode(words.tokens)
