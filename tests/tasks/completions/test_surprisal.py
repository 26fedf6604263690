"""toolkit-generate surprisal equals loops over words, tokens and windows, one forward pass each."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
import torch

from toolkit.cli.generate import main
from toolkit.config.commands.generate import SurprisalOptions
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.models.interface import Inputs
from toolkit.tasks.completions.surprisal import SurprisalReader

SOURCE, TEXT = "a rat ran", "The cats  saw how (dogs) hugged, matted 7 rats far."


@pytest.fixture(scope="module")
def pieces():
    """SentencePiece's tokens, of which some begin with a space."""
    texts = ["the cat sat on a mat, and saw how dogs run far.", "The cats hugged 7 rats (matted)"]
    return Tokenizer.train(texts * 5, vocabulary_size=50)


@pytest.fixture
def measure(tmp_path):
    """The exit status and the JSON records of the command for some lines."""

    def run(learner, *lines, words=()):
        if not (tmp_path / "run").exists():
            learner.save(tmp_path / "run")
        results = tmp_path / "out.jsonl"
        (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines))
        given = ["surprisal", "--path", tmp_path / "run", "--input", tmp_path / "text"]
        status = main([*map(str, [*given, "--results-path", results, *words])])
        rows = results.read_text().splitlines() if status == 0 else []
        return status, [json.loads(row) for row in rows]

    return run


def windows(count, size):
    """Start of the window of each position: of half of the next window, all positions are new."""
    starts, done = [], 0
    while done < count:
        start = max(0, min(done - size // 2, count - size))
        end = min(start + size, count)
        starts, done = starts + [start] * (end - done), end
    return starts


def causal_logits(learner, source, tokens, context):
    """What predicts each token and the end symbol from those in its window before it."""
    end, rows = learner.tokenizer.vocabulary.sep, []
    previous = [end, *tokens]
    for t, start in enumerate(windows(len(previous), context or len(previous))):
        row = torch.tensor([previous[start : t + 1]])
        if source:
            read = learner.encoder(Inputs(torch.tensor([[*source, end]])))
            states = learner.encoder.decode(row, read, None)[0]
        else:
            states = learner.encoder(Inputs(row)).states[0]
        rows.append(learner.encoder.scores(states.reshape(-1, states.shape[-1])[-1:])[0])
    return torch.stack(rows)


def masked_logits(learner, tokens, later, context):
    """What predicts each token if it and the later ones of its word are masked."""
    vocabulary, rows = learner.tokenizer.vocabulary, []
    size = context - 2 if context else len(tokens)
    for t in range(len(tokens)):
        hidden = [t, *later(t)]
        start = min(max(0, t - (size - len(hidden)) // 2), max(0, len(tokens) - size))
        row = [vocabulary.mask if i in hidden else token for i, token in enumerate(tokens)]
        row = [vocabulary.cls, *row[start : start + size], vocabulary.sep]
        states = learner.encoder(Inputs(torch.tensor([row]))).states[0, [1 + t - start]]
        rows.append(learner.task.head(states, learner.encoder.token_embedding.weight)[0])
    return torch.stack(rows)


@torch.no_grad()
@pytest.mark.parametrize(
    ("arch", "task", "context"),
    [
        ("bert_tiny", "mlm", None),
        ("bert_tiny", "mlm", 9),
        ("transformer_lm_tiny", "language_modeling", None),
        ("transformer_lm_tiny", "language_modeling", 7),
        ("transformer_tiny", "translation", None),
    ],
)
def test_words_equal_loops_over_their_tokens(make_learner, measure, pieces, arch, task, context):
    learner = make_learner(arch, task, pieces).eval()
    vocabulary, text = learner.tokenizer.target.vocabulary, " ".join(TEXT.split())
    source = learner.tokenizer.encode(SOURCE) if task == "translation" else []
    line = f"{SOURCE}\t{TEXT}" if source else TEXT
    parts = [learner.tokenizer.target.encode(word) for word in text.split()]
    tokens = [token for part in parts for token in part]
    edges = np.cumsum([0, *map(len, parts)]).tolist()
    if task == "mlm":
        marks = [vocabulary.symbols[token].lstrip("▁") for token in tokens]
        letters = [it.isalnum() for it in marks]

        def later(t):  # letters that follow letters, and what follows the mark of a space alone
            end = t + 1
            while end not in edges and (not marks[end - 1] or all(letters[end - 1 : end + 1])):
                end += 1
            return range(t + 1, end)

        logits = masked_logits(learner, tokens, later, context)
    else:
        logits = causal_logits(learner, source, tokens, context)
    p = logits.double().softmax(-1)
    begins = [i for i, it in enumerate(vocabulary.symbols) if it[0] == "▁"] + [vocabulary.sep]
    status, [record] = measure(learner, line, words=["--context", context] if context else [])
    assert status == 0 and [it["word"] for it in record["words"]] == text.split()
    for word, first, end in zip(record["words"], edges, edges[1:], strict=False):
        total = -sum(math.log2(p[t, tokens[t]]) for t in range(first, end))
        ending = 0.0
        if task != "mlm":
            ending = math.log2(p[first, begins].sum()) - math.log2(p[end, begins].sum())
        assert word["surprisal"] == pytest.approx(total + ending, abs=1e-5)
        assert word["uncorrected"] == pytest.approx(total, abs=1e-5)
        entropy = -sum(it * math.log2(it) for it in p[first].tolist())
        assert word["entropy"] == pytest.approx(entropy, abs=1e-5)
        assert word["rank"] == 1 + int((p[first] > p[first, tokens[first]]).sum())
        assert word["tokens"] == end - first
        assert word["unknown"] == tokens[first:end].count(vocabulary.unk)
    assert np.std([it["surprisal"] for it in record["words"]]) > 1, "else little is compared"


LM = ("transformer_lm_tiny", "language_modeling")


def test_table_has_a_row_for_each_word_with_its_frequency(make_learner, measure, tmp_path, capsys):
    (tmp_path / "counts").write_text("the 990\nCat 7\n")
    status, _ = measure(
        make_learner(*LM), "The cat,", "", words=["--frequencies", tmp_path / "counts"]
    )
    names, *rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert status == 0 and names[:3] == ["sentence", "word", "surprisal"]
    assert [row[:2] for row in rows] == [["1", "The"], ["1", "cat,"], ["2", "# empty"]]
    zipf = [float(row[names.index("log_frequency")]) for row in rows[:2]]
    assert zipf == pytest.approx([math.log10(it / 999) + 9 for it in (991, 8)], abs=1e-4)


@torch.no_grad()
def test_first_word_of_byte_level_tokens_has_no_space(make_learner, byte_pieces):
    learner = make_learner(*LM, byte_pieces)
    reader = SurprisalReader(learner, SurprisalOptions(), max_tokens=100)
    [[a, _]] = reader.measure(["a that"])
    p = causal_logits(learner, [], byte_pieces.encode("a"), None).double().softmax(-1)
    space = [symbol[0] == "Ġ" for symbol in byte_pieces.vocabulary.symbols]
    space[byte_pieces.vocabulary.sep] = True
    ends = p[1, torch.tensor(space)].sum() / p[0, ~torch.tensor(space)].sum()
    assert a.uncorrected - a.surprisal == pytest.approx(math.log2(ends), abs=1e-5)


@pytest.mark.parametrize(
    ("arch", "task", "notes"),
    [
        (
            "bert_tiny",
            "mlm",
            {"cat " * 20: r"20 tokens, more than the model's 14; --context reads"},
        ),
        (
            *LM,
            {"cat " * 20: r"21 tokens, more than the model's 16; --context reads a text in windo"},
        ),
        (
            *("transformer_tiny", "translation"),
            {"a cat": "no tab", "cat " * 20 + "\ta": r"21 .* 16$", "\ta cat": "empty"},
        ),
    ],
)
def test_lines_that_cannot_be_read_get_a_note(make_learner, measure, arch, task, notes):
    learned = {} if task == "mlm" else {"positions": "learned"}
    status, records = measure(make_learner(arch, task, max_positions=16, **learned), *notes)
    assert status == 0 and not any(record["words"] for record in records)
    for record, note in zip(records, notes.values(), strict=True):
        assert re.match(note, record["note"])


def test_bad_options_end_in_one_line(make_learner, measure, tmp_path, capsys):
    (tmp_path / "counts").write_text("the 990\nCat\n")
    for words, message in (
        (["--scoring", "within_word_left_to_right"], "scoring must be log_likelihood for a model"),
        (["--frequencies", tmp_path / "counts"], "counts:2: expected a word and its count, found"),
    ):
        assert measure(make_learner(*LM), "a cat", words=words)[0] == 2
        assert message in capsys.readouterr().err
