"""Ages of acquisition, and sets of pairs."""

from __future__ import annotations

import json
import math
import shutil
from itertools import product

import numpy as np
import pytest
import torch
from scipy import optimize, special, stats

from tests.commands.test_all_checkpoints import add_checkpoint, set_clock
from tests.tasks.completions.test_scorer import masked_log_probability
from toolkit import build_model
from toolkit.cli.validate import main
from toolkit.commands import reading_times as command
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import AcquisitionConfig, SurprisalOptions
from toolkit.data.tokenizers.tokenizer import Tokenizer
from toolkit.generation.output import WordSurprisal
from toolkit.models.interface import Inputs
from toolkit.reporting.console import Output
from toolkit.tasks.completions.acquisition import average_words, fit_age, measure_alone
from toolkit.tasks.completions.items import read_sets
from toolkit.tasks.completions.reading_times import ReadingTimes
from toolkit.tasks.completions.surprisal import SurprisalReader

SEEN = np.array([1e3, 3e3, 1e4, 3e4, 1e5, 3e5])
LEARNED = {"cat": 4_000, "dogs": 40_000, "rat": 15_000}
HUMAN = {"cat": 12.0, "dogs": 20.0, "rat": 24.0, "the": None, "a": 30.0}
SENTENCES = ["the cat sees a rat", "dogs see the rat", "a cat"]


def fit(surprisals, chance):
    """The half-way point of the best curve that SciPy finds from 120 starting points."""
    x, final = np.log10(SEEN), surprisals[-1]

    def errors(parameters):
        middle, log_width = parameters
        curve = final + (chance - final) * special.expit((middle - x) / math.exp(log_width))
        return curve - surprisals

    starts = product(np.linspace(x[0], x[-1], 20), np.linspace(-2.9, 1.9, 6))
    fits = [optimize.least_squares(errors, it, bounds=([2, -3], [7, 2])) for it in starts]
    return min((it.cost, 10 ** it.x[0]) for it in fits)[1]


@pytest.mark.parametrize("middle", [3.4, 4.2, 4.6])
def test_age_equals_the_best_fit_of_scipy(middle):
    curve = 6 + 8 / (1 + np.exp((np.log10(SEEN) - middle) / 0.2))
    assert math.log10(fit_age(SEEN, curve, 14.0)) == pytest.approx(middle, abs=0.02)
    noisy = curve + np.random.default_rng(0).normal(0, 0.7, len(curve))
    found = math.log10(fit_age(SEEN, noisy, 14.0))
    assert found == pytest.approx(math.log10(fit(noisy, 14.0)), abs=1e-3)


def test_words_that_are_not_learned_between_checkpoints_have_no_age():
    assert math.isnan(fit_age(SEEN, np.linspace(15, 14.5, 6), 14.0))  # above chance
    assert math.isnan(fit_age(SEEN, np.full(6, 5.0), 14.0))  # before the first checkpoint


def test_chance_level_of_a_word_counts_its_tokens():
    words = [[WordSurprisal("The", 1.0, tokens=1), WordSurprisal("cats,", 6.0, tokens=3)]]
    data = ReadingTimes(["The cats,"], [], [(0, 0), (0, 1)], {}, {})
    assert average_words(data, words, 16) == {"the": [1.0, 4.0], "cats": [6.0, 12.0]}


@pytest.fixture
def run(tmp_path):
    """A run whose bias for a word rises when it is learned."""
    tokenizer = Tokenizer.train(SENTENCES, kind="words")
    torch.manual_seed(0)
    model = build_model("bert_tiny", tokenizer=tokenizer, task="mlm", layers=1)
    bias = next(
        it
        for name, it in model.task.head.named_parameters()
        if name.endswith("bias") and len(it) == len(tokenizer.vocabulary)
    )
    for update, words in enumerate(SEEN, 1):
        with torch.no_grad():
            for word, learned in LEARNED.items():
                rise = 1 / (1 + (learned / words) ** 1.5)
                bias[tokenizer.vocabulary.symbols.index(word)] = 4 * rise
        add_checkpoint(tmp_path / "run", model, update, int(words))
    rows = [
        f"{sentence},{word},{index},{HUMAN.get(word) or ''}\n"
        for sentence in SENTENCES
        for index, word in enumerate(sentence.split())
        if word in HUMAN
    ]
    (tmp_path / "words.csv").write_text("sentence,word,context_length,age\n" + "".join(rows))
    return tmp_path


def ask(folder, *more):
    words = ["--task", "age_of_acquisition", "--path", str(folder / "run"), *more]
    return main([str(folder / "words.csv"), *words])


def test_ages_follow_from_the_surprisals_of_all_checkpoints(run, monkeypatch, capsys):
    loaded, load = [], command.load_checkpoint
    monkeypatch.setattr(
        command, "load_checkpoint", lambda *a, **o: loaded.append(load(*a, **o)) or loaded[-1]
    )
    results, events = run / "all.jsonl", run / "events.jsonl"
    assert ask(run, "--results-path", str(results), "--json", str(events)) == 0
    [found] = [it for it in map(json.loads, events.read_text().splitlines()) if "ages" in it]
    curves, chance = {}, math.log2(len(loaded[0].tokenizer.vocabulary))
    for learner in loaded:
        measured = SurprisalReader(learner, SurprisalOptions(), max_tokens=100).measure(SENTENCES)
        for word in HUMAN:
            bits = [it.surprisal for words in measured for it in words if it.word == word]
            curves.setdefault(word, []).append(np.mean(bits))
    ages = {word: age for word, (age, _) in found["ages"].items()}
    for word in LEARNED:
        assert ages[word] == pytest.approx(fit(np.array(curves[word]), chance), rel=1e-3)
    assert ages["cat"] < ages["rat"] < ages["dogs"]
    both = [word for word in ages if ages[word] and HUMAN[word]]
    assert found["compared"] == len(both) >= 3
    pairs = [HUMAN[it] for it in both], np.log10([ages[it] for it in both])
    assert found["pearson"] == pytest.approx(stats.pearsonr(*pairs)[0])
    assert found["spearman"] == pytest.approx(stats.spearmanr(*pairs)[0])
    assert "human age" in capsys.readouterr().out
    shutil.rmtree(run / "run" / "checkpoint_e1_u6")
    assert ask(run, "--results-path", str(results)) == 0
    assert len(loaded) == len(SEEN), "results that the file has are not computed again"


def test_words_below_half_way_at_the_first_checkpoint_are_counted_separately(capsys):
    curves = {
        middle: 6 + 8 / (1 + np.exp((np.log10(SEEN) - middle) / 0.2)) for middle in (3.4, 4.2)
    }
    words = {"early": np.full(6, 6.0), "never": np.linspace(15, 14.5, 6)}
    words |= {"cat": curves[3.4], "dogs": curves[4.2]}
    records = [
        {"task": "t", "words": int(seen), "surprisals": {k: [v[i], 14.0] for k, v in words.items()}}
        for i, seen in enumerate(SEEN)
    ]
    with Output(None) as output:
        found = command.report_ages(
            "run", records, dict.fromkeys(words, 1.0) | {"cat": 2.0}, output
        )
    assert (found["before_first"], found["acquired"], found["compared"]) == (["early"], 2, 2)
    printed = capsys.readouterr().out
    assert "2 of 4 words acquired, 1 more before 1,000 words" in printed
    rows = dict(line.split(maxsplit=1) for line in printed.splitlines() if line.split()[0] in words)
    assert rows["early"].startswith("before 1,000") and rows["never"].startswith("-")


def test_runs_without_words_or_with_few_checkpoints_are_one_line(run, capsys):
    for update in (1, 2, 3):
        shutil.rmtree(run / "run" / f"checkpoint_e1_u{update}")
    assert ask(run) == 2
    assert (
        "must have at least 4 checkpoints, but --path names 3. Name the save folder"
        in capsys.readouterr().err
    )
    set_clock(run / "run" / "checkpoint_e1_u4", 4)
    assert ask(run) == 2
    assert "checkpoint_e1_u4 must have counted the words" in capsys.readouterr().err


@torch.no_grad()
def test_words_alone_follow_the_symbol_that_begins_a_text_twice(make_learner):
    words, c = ["cats", "ran", "matted"], AcquisitionConfig(files=["words.json"], path=["run"])
    learner = make_learner("bert_tiny", layers=1)
    roles, found = learner.tokenizer.vocabulary, measure_alone(learner, words, c)
    causal = make_learner("transformer_lm_tiny", "language_modeling", layers=1)
    after_end, table = measure_alone(causal, words, c), causal.encoder.output_embedding.weight
    for word in words:
        ids, total = learner.tokenizer.encode(word), 0.0
        for t, target in enumerate(ids):
            row = [roles.cls, roles.cls, *ids, roles.sep]
            row[2 + t] = roles.mask
            total += masked_log_probability(learner, row, 2 + t, target)
        chance = len(ids) * math.log2(len(roles))
        assert found[word] == pytest.approx([-total / math.log(2), chance], rel=1e-5)
        states = causal.encoder(Inputs(torch.tensor([[roles.sep, roles.sep, *ids]]))).states[0]
        log_p = (states @ table.T).log_softmax(-1)[range(1, 1 + len(ids)), ids].sum()
        assert after_end[word][0] == pytest.approx(-float(log_p) / math.log(2), rel=1e-5)


def test_words_of_the_challenge_have_two_letters_and_twenty_contexts(run, capsys):
    words, results = run / "cdi_childes.json", run / "all.jsonl"
    contexts = {"cat": 20, "a": 20, "rat": 19, "dogs": 21}
    text = json.dumps({word: [{"context": "the"}] * n for word, n in contexts.items()}, indent=1)
    words.write_text(text)
    asked = ["--task", "age_of_acquisition", "--path", str(run / "run")]
    assert main([str(words), *asked, "--results-path", str(results)]) == 0
    records = [json.loads(line) for line in results.read_text().splitlines()]
    assert len(records) == len(SEEN)
    assert all(it["contexts"] == {"cat": 20, "dogs": 21} for it in records)
    curve = [it["surprisals"]["dogs"][0] for it in records]
    assert curve[-1] < curve[1] < 10
    for broken, message in (
        (
            '{"cat": [{"sentence": "the"}]}',
            "cdi_childes.json: [...][0]: object missing required field context",
        ),
        ('{"cat": [{"context": "the"}]}', "words of 2 letters with 20 contexts, but has none"),
        (text[:-1], "cdi_childes.json: "),
    ):
        words.write_text(broken)
        capsys.readouterr()
        assert main([str(words), *asked]) == 2
        error = capsys.readouterr().err
        assert message in error and len(error.splitlines()) == 1


def write_table(file, *rows):
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    return str(file)


def write_objects(file, *rows):
    pair = {"sentence_good": "dogs run", "sentence_bad": "dogs runs"}
    file.write_text("".join(json.dumps(pair | row) + "\n" for row in rows))
    return str(file)


def paradigms(names, limit=None):
    return [pair.paradigm.name for pair in read_sets(names, limit)[0]]


def test_each_file_is_a_paradigm_also_with_the_name_of_another(tmp_path):
    one = write_table(tmp_path / "a" / "agreement.tsv", ("x y", "x z"), ("u v", "u w"))
    other = write_table(tmp_path / "b" / "agreement.tsv", ("k l", "k m"))
    third = write_table(tmp_path / "b" / "islands.tsv", ("k l", "k m"))
    assert paradigms([one, other, third]) == [one, one, other, "islands"]
    assert paradigms([one, other], limit=1) == [one, other]


def test_pairs_of_a_uid_may_be_in_several_files(tmp_path):
    files = [write_objects(tmp_path / name, {"UID": "u"}) for name in ("a.jsonl", "b.jsonl")]
    assert paradigms(files) == ["u", "u"]
    assert paradigms(files, limit=1) == ["u"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (("subgroup", "group"), "paradigm a must have one group, as in {}:1, but"),
        (("UID", "linguistics_term"), "paradigm a must have one linguistics_term, as in {}:1, but"),
    ],
)
def test_a_paradigm_with_two_phenomena_is_an_error_that_names_the_fields(tmp_path, fields, message):
    rows = [dict(zip(fields, ("a", it), strict=True)) for it in ("islands", "islands", "binding")]
    file = write_objects(tmp_path / "a.jsonl", *rows)
    with pytest.raises(ToolkitError, match=f"{file}:3: .*{message.format(file)}"):
        read_sets([file])


@pytest.mark.parametrize("field", ["phenomenon", "group", "linguistics_term"])
def test_phenomena_of_a_file_without_names_of_paradigms_are_its_paradigms(tmp_path, field):
    """As in MultiBLiMP's data.tsv, in a folder for each language."""
    head = ("sen", "wrong_sen", field)
    rows = [("x y", "x z", "SV-#"), ("u v", "u w", "SV-P"), ("k l", "k m", "SV-#")]
    files = [write_table(tmp_path / it / "data.tsv", head, *rows) for it in ("eng", "deu")]
    items, _ = read_sets(files[:1])
    assert [it.paradigm[:2] for it in items] == [
        *[("data_SV-#", "SV-#"), ("data_SV-P", "SV-P"), ("data_SV-#", "SV-#")]
    ]
    assert paradigms(files, limit=1) == [
        f"{file}_{it}" for file in files for it in ("SV-#", "SV-P")
    ]


def test_a_folder_stands_for_its_txt_files_if_it_has_no_others(tmp_path):
    write_table(tmp_path / "verbs.txt", ("x z",), ("x y",))
    (tmp_path / "README.txt").write_text("One line.\n")
    assert paradigms([str(tmp_path)]) == ["verbs"]
    (tmp_path / "model.safetensors").write_text("")
    with pytest.raises(ToolkitError, match="txt files alone, but does not"):
        read_sets([str(tmp_path)])


@pytest.mark.parametrize(
    "header", ["sentence_good\tsentence_bad", "\n Sentence_Good\tsentence_bad "]
)
def test_a_header_is_no_pair(tmp_path, header):
    (tmp_path / "a.tsv").write_text(f"{header}\ndogs run\tdogs runs\n")
    assert [pair.options[0] for pair in read_sets([str(tmp_path / "a.tsv")])[0]] == ["dogs run"]


@pytest.mark.parametrize(
    ("fields", "paradigm"),
    [
        ({"UID": "u", "linguistics_term": "t", "field": "a/b"}, ("u", "t", "a_b")),  # BLiMP
        ({"linguistic_phenomenon": "t", "paradigm": "u"}, ("u", "t", "")),  # BLiMP-NL
        ({"phenomenon": "t", "paradigm": "u"}, ("u", "t", "")),
        ({"group": "t", "subgroup": "u"}, ("u", "t", "")),
        ({"group": "t"}, ("a_t", "t", "")),
        ({}, ("a", "", "")),
    ],
)
def test_paradigms_are_named_by_fields_of_published_sets_and_tables(tmp_path, fields, paradigm):
    ((pair,), _) = read_sets([write_objects(tmp_path / "a.jsonl", fields)])
    assert pair.paradigm == paradigm


def test_in_turns_of_clams_the_sentence_after_true_is_right(tmp_path):
    (tmp_path / "a.txt").write_text("False\tdogs runs\nTrue\tdogs run\nTrue\tI am\nFalse\tI is\n")
    items, _ = read_sets([str(tmp_path / "a.txt")])
    assert [item.options for item in items] == [["dogs run", "dogs runs"], ["I am", "I is"]]
