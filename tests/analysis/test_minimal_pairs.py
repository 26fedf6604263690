"""toolkit-plot minimal-pairs: files, seeds, groups, numbers."""

import json
import math

import pytest

from toolkit.analysis.minimal_pairs import (
    GroupAccuracy,
    Paradigm,
    draw_panels,
    group_paradigms,
    group_seeds,
    measure,
    pool,
    read_pair_results,
    shared_paradigms,
)
from toolkit.analysis.plot_style import write_plot
from toolkit.cli.plot import main
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.plot import PairPlotConfig

pytest.importorskip("matplotlib")

# as in BLiMP's models_summary.jsonl, whose rows "overall" are means of phenomena and of everything
TABLE = [
    {"UID": "gender", "linguistics_term": "anaphors", "ngram": 0.439, "gpt2": 0.994},
    {"UID": "number", "linguistics_term": "anaphors", "ngram": 0.519, "gpt2": 0.992},
    {"UID": "overall", "linguistics_term": "anaphors", "ngram": 0.479, "gpt2": 0.993},
    {"UID": "wh_island", "linguistics_term": "islands", "ngram": 0.5, "gpt2": 0.7},
]
PHENOMENA = {"gender": "anaphors", "number": "anaphors", "wh_island": "islands"}


def result(path, *accuracies, pairs=100, scoring="pseudo_log_likelihood", **more):
    """What toolkit-validate --task minimal_pairs writes, of which the plot reads the paradigms."""
    paradigms = [
        {"name": name, "phenomenon": PHENOMENA[name], "field": "", "pairs": pairs, "ties": 0}
        | {"accuracy": a, "standard_error": math.sqrt(a * (1 - a) / pairs)}
        for name, a in zip(PHENOMENA, accuracies, strict=False)
    ]
    record = {"task": "minimal_pairs", "path": path, "scoring": scoring, "normalization": "none"}
    return {**record, "paradigms": paradigms, **more}


@pytest.fixture
def write(tmp_path):
    def write(*rows, name="results.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return tmp_path / name

    return write


def test_pooled_accuracy_and_error_equal_those_of_all_pairs():
    outcomes = [[1, 1, 0, 1], [0, 0.5, 1, 0, 0, 1]]  # of each pair of two paradigms
    parts = []
    for part in outcomes:
        mean = sum(part) / len(part)
        within = sum((x - mean) ** 2 for x in part)
        parts.append(Paradigm("", "", mean, math.sqrt(within) / len(part), len(part)))
    squares = sum((part.pairs * part.standard_error) ** 2 for part in parts)
    assert pool(parts) == pytest.approx((5.5 / 10, math.sqrt(squares) / 10))
    assert pool([*parts, Paradigm("", "", 0.5, None)])[1] is None


def test_results_are_read_from_results_json_events_and_published_tables(write):
    record = result("run", 0.5, 0.75, 1.0)
    event = {"event": "minimal_pairs", **record}
    for file in (write(record), write(event, {"event": "end", "pairs": 300}, name="b")):
        [found] = read_pair_results(file)
        number = found.paradigms["number"]
        assert (number.pairs, number.accuracy) == (100, 0.75)
        assert number.standard_error == pytest.approx(math.sqrt(0.1875 / 100))
        assert shared_paradigms([found]) == PHENOMENA
    ngram, gpt2 = read_pair_results(write(*TABLE, name="models_summary.jsonl"))
    assert (ngram.source, gpt2.source) == ("ngram", "gpt2")
    assert shared_paradigms([gpt2]) == PHENOMENA
    assert gpt2.paradigms["gender"] == Paradigm("gender", "anaphors", 0.994, None)


def test_models_of_a_table_are_the_fields_with_a_number_in_any_row(write):
    rows = [
        {"UID": "gender", "linguistics_term": "anaphors", "lexical": True, "human": 1},
        {"UID": "number", "linguistics_term": "anaphors", "lexical": True, "human": 0.9},
    ]
    [human] = read_pair_results(write(*rows))
    assert human.source == "human"
    assert {name: it.accuracy for name, it in human.paradigms.items()} == {
        "gender": 1.0,
        "number": 0.9,
    }
    with pytest.raises(
        ToolkitError,
        match=r"gpt2 in the row of UID gender: accuracy: expected float, found null\. Corr",
    ):
        read_pair_results(write(rows[0], {**rows[1], "gpt2": 0.5}))


@pytest.mark.parametrize(
    ("accuracy", "found"),
    [(None, "float, found null"), (True, "float, found bool"), (82.9, "float <= 1.0")],
)
def test_an_accuracy_of_a_table_must_be_a_share(write, accuracy, found):
    file = write(*TABLE[:1], {**TABLE[1], "gpt2": accuracy})
    complaint = f"results.jsonl: gpt2 in the row of UID number: accuracy: expected {found}"
    with pytest.raises(ToolkitError, match=complaint):
        read_pair_results(file)


def test_a_paradigm_with_two_rows_in_a_table_is_reported(write):
    with pytest.raises(
        ToolkitError, match=r"UID gender must have one row, but has several\. Correct or"
    ):
        read_pair_results(write(*TABLE, {**TABLE[0], "gpt2": 0.1}))


def test_seeds_of_a_configuration_are_one_model(write):
    paths = [f"runs/arch=bert_{name},seed={seed}/checkpoint_best" for name in "ab" for seed in "01"]
    results = read_pair_results(write(*(result(path, 0.5, 0.5, 0.5) for path in paths)))
    groups = group_seeds(results)
    assert [(name, len(seeds)) for name, seeds in groups.items()] == [
        ("arch=bert_a", 2),
        ("arch=bert_b", 2),
    ]
    with pytest.raises(ToolkitError, match=r"arch=bert_a,seed=0/checkpoint_best must have one res"):
        group_seeds([*results, results[0]])


def test_checkpoints_and_scorings_of_one_run_are_different_models(write):
    rows = [result(path, 0.5, 0.5, 0.5) for path in ("run/checkpoint_1", "run/checkpoint_2")]
    assert list(group_seeds(read_pair_results(write(*rows)))) == ["checkpoint_1", "checkpoint_2"]
    scorings = ("pseudo_log_likelihood", "within_word_left_to_right")
    rows = [result("run", 0.5, 0.5, 0.5, scoring=scoring) for scoring in scorings]
    names = list(group_seeds(read_pair_results(write(*rows))))
    assert names == ["run, pseudo_log_likelihood", "run, within_word_left_to_right"]


def test_groups_are_all_paradigms_then_phenomena_then_paradigms_without_one():
    assert group_paradigms({**PHENOMENA, "mine": ""}) == {
        "overall": ["gender", "number", "wh_island", "mine"],
        "anaphors": ["gender", "number"],
        "islands": ["wh_island"],
        "mine": ["mine"],
    }
    assert group_paradigms({"mine": ""}) == {"overall": ["mine"]}
    assert group_paradigms({"overall": "", "b": "", "a": ""}) == {
        "overall": ["overall", "b", "a"],
        "a": ["a"],
        "b": ["b"],
    }
    assert group_paradigms(PHENOMENA, "anaphors") == {
        "anaphors": ["gender", "number"],
        "gender": ["gender"],
        "number": ["number"],
    }
    with pytest.raises(ToolkitError, match=r"--phenomenon must be one of anaphors, islands, but"):
        group_paradigms(PHENOMENA, "island")


def test_sets_of_a_suite_are_one_result_with_the_mean_of_their_chances(write):
    first = result("run", 0.5, 1.0, set="a")
    boxes = {**first["paradigms"][0], "name": "boxes", "chance": 0.2}
    second = {**first, "set": "b", "paradigms": [boxes]}
    other = result("other", 0.5, 0.5, set="a")
    forms = {**first, "set": "c", "paradigms": [], "correlations": [{"spearman": 0.1}]}
    run, other = read_pair_results(write(first, forms, second, other))
    assert list(run.paradigms) == ["gender", "number", "boxes"] and len(other.paradigms) == 2
    assert measure([run], list(run.paradigms)).chance == pytest.approx(40)


def test_models_are_compared_on_the_paradigms_that_all_have(write):
    long, short = read_pair_results(write(result("a", 0.5, 0.5, 0.5), result("b", 0.5, 0.5)))
    assert list(shared_paradigms([long, short])) == ["gender", "number"]
    with pytest.raises(ToolkitError, match=r"Results must have paradigms in common"):
        shared_paradigms([long, short._replace(paradigms={})])


def test_plot_writes_an_image_a_table_and_json(write, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    runs = write(
        result("runs/arch=none,seed=0/checkpoint_best", 0.4, 0.6, 0.5),
        result("runs/arch=none,seed=1/checkpoint_best", 0.6, 0.6, 0.3),
        result("runs/arch=rope,seed=0/checkpoint_best", 0.8, 0.7),
    )
    published = write(*TABLE, name="summary.jsonl")
    image, numbers = tmp_path / "pairs.png", tmp_path / "numbers.jsonl"
    words = ["minimal-pairs", runs, published, "--output", image, "--json", numbers]
    assert main([*map(str, words), "--labels", "gpt2=GPT-2"]) == 0
    assert image.read_bytes().startswith(b"\x89PNG")
    *rows, end = [json.loads(line) for line in numbers.read_text().splitlines()]
    assert end == {"event": "end", "output": str(image)}
    assert [row["group"] for row in rows] == ["overall"] * 4  # one phenomenon is shared: no panel
    assert [row["model"] for row in rows] == ["gpt2", "arch=rope", "arch=none", "ngram"]
    none = rows[2]
    assert none["mean"] == pytest.approx(55) and none["seeds"] == pytest.approx([50, 60])
    error = (math.sqrt(0.48) + math.sqrt(0.48)) / 2 / 20  # of two paradigms of 100 pairs
    assert none["standard_error"] == pytest.approx(100 * error)
    printed = capsys.readouterr().out
    assert "GPT-2  rope  none  ngram" in printed
    assert "left out 1 paradigm that not all models have\n" in printed


PAIR = '{"UID": "a", "linguistics_term": "b", "sentence_good": "a", "one_prefix_method": true}'
PAIRLESS = (
    '{"task": "minimal_pairs", "path": "a", "scoring": "pll", "normalization": "sentence", '
    '"paradigms": [{"name": "a", "phenomenon": "b", "pairs": 0, "accuracy": 1, '
    '"standard_error": 0}]}'
)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("no json\n", r"a.jsonl must hold one JSON object per line, but line 1 is 'no json'"),
        ('{"event": "valid"}\n', r"must hold results on minimal pairs, but holds none. Write them"),
        (f"{PAIR}\n{PAIR}\n", r"must hold results on minimal pairs, but holds none"),
        ('{"task": "minimal_pairs"}\n', r"missing required field path. Write them"),
        ('[{"UID": 1}]\n', r"must hold one JSON object per line"),
        (
            '{"UID": "a", "linguistics_term": 1, "gpt2": 0.5}\n',
            r"of UID a: phenomenon: expected str, found int",
        ),
        (PAIRLESS, r"paradigms\[0\].pairs: expected int >= 1"),
        ('{"UID": "a", "gpt2": 0.5}\n', r"of UID a: phenomenon: expected str, found null"),
    ],
)
def test_other_files_are_rejected(tmp_path, text, complaint):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(ToolkitError, match=complaint):
        read_pair_results(tmp_path / "a.jsonl")


MODELS = [f"variant {index}" for index in range(14)]
GROUPS = [
    "overall",
    *(f"constraint on {index} coordinate structures: object extraction" for index in range(3)),
]
LABELS = {name: name for name in (*MODELS, *GROUPS)}


def draw(c, groups=GROUPS, models=MODELS, seeds=2, chances=()):
    accuracies = {
        model: GroupAccuracy(90.0 - row, 0.5 if row else None, [90.0 - row] * seeds)
        for row, model in enumerate(models)
    }
    figures = []

    def draw():
        panels = {group: accuracies for group in groups}
        for group, chance in zip(groups, chances, strict=False):
            panels[group] = {name: it._replace(chance=chance) for name, it in accuracies.items()}
        figures.append(draw_panels(panels, LABELS, c))
        return figures[0]

    write_plot(c, draw)
    return figures[0]


@pytest.fixture
def config(tmp_path):
    return lambda **options: PairPlotConfig(
        files=["a"], **{"output": str(tmp_path / "plot.pdf"), **options}
    )


def test_panels_share_a_scale_with_a_line_at_chance(config):
    fig = draw(config(), GROUPS[:3], MODELS[:2], seeds=1, chances=[50.0, 20.0, 50.0])
    assert len({ax.get_xlim() for ax in fig.axes}) == 1
    for ax, chance in zip(fig.axes, (50.0, 20.0, 50.0), strict=True):
        assert chance in [line.get_xdata()[0] for line in ax.get_lines()]
        assert ax.get_xlim()[0] < 20.0
    assert [it.get_text() for it in fig.axes[0].get_yticklabels()] == MODELS[:2]
    assert fig.axes[0].get_ylim()[0] > fig.axes[0].get_ylim()[1]  # the first model on top
