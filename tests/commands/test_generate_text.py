"""toolkit-generate with models that write: every sentence answered once, in its place."""

from __future__ import annotations

import io
import json
import sys

import pytest

from toolkit.cli.generate import main
from toolkit.cli.preprocess import main as preprocess
from toolkit.commands.generate_text import GenerationSummary
from toolkit.commands.text_io import open_writers
from toolkit.common.errors import ToolkitError
from toolkit.config.commands.generate import TranslateConfig
from toolkit.config.load import compose
from toolkit.generation.output import GeneratedText, GenerationOutput
from toolkit.reporting.json_output import Output
from toolkit.training.run import run

FORMATS = (str, GenerationOutput.to_console, GenerationOutput.to_fairseq)
ENGLISH = [
    "the cat sat on the mat", "a dog runs far", "two dogs run", "the mat is red", "a cat sees it"
] * 4  # fmt: skip
GERMAN = [
    "die katze sitzt", "ein hund rennt weit", "zwei hunde rennen", "die matte ist rot", "sie sieht"
] * 4  # fmt: skip
SMALL = {
    "arch.width": 16,
    "arch.heads": 2,
    "arch.feed_forward_width": 24,
    "data.batch_size": 8,
    "data.num_workers": 0,
    "training.max_update": 12,
    "training.precision": "fp32",
    "optimizer.lr": 0.02,
    "logging.progress": "lines",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A parallel folder, and a model of it."""
    place = tmp_path_factory.mktemp("written")
    for name, lines in (("en", ENGLISH), ("de", GERMAN)):
        (place / f"t.{name}").write_text("".join(f"{line}\n" for line in lines))
    prefix = str(place / "t")
    words = ["--source-lang", "en", "--target-lang", "de", "--trainpref", prefix]
    words += ["--validpref", prefix, "--testpref", prefix, "--destdir", str(place / "bin")]
    assert preprocess([*words, "--tokenizer", "words", "--workers", "1"]) == 0
    trained(place, "run", "translation", "transformer_tiny", 1)
    trained(place, "other", "translation", "transformer_tiny", 2)
    return place


def trained(place, name, task, arch, seed):
    layers = {"arch.encoder_layers": 1, "arch.decoder_layers": 1}
    options = {"arch": arch, "task": task, "data.dirs": [str(place / "bin")], "seed": seed}
    run(compose({**SMALL, **layers, **options, "save_dir": str(place / name)}))


@pytest.fixture
def answered(folder, tmp_path, monkeypatch, capsys):
    """What the command makes of some lines, as JSON records and as what it prints."""

    def answer(content, *words, path=("run",)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        results = tmp_path / "out.jsonl"
        paths = [str(folder / name) for name in path]
        given = ["--path", *paths, "--results-path", str(results), "--precision", "fp32"]
        assert main([*given, *words]) == 0
        return [json.loads(line) for line in results.read_text().splitlines()], capsys.readouterr()

    return answer


LINES = (
    b"a dog runs far\r\n\nthe mat \xff\nzwei\nthe cat sat on the mat\n" + b"cat " * 5000 + b"\nend"
)


def test_every_line_is_answered_once_in_its_place(answered):
    records, shown = answered(LINES, "--beam", "2", "--max-len-b", "8")
    assert [record["line"] for record in records] == list(range(1, 8))
    assert records[0]["source"] == "a dog runs far"
    notes = [record["note"] for record in records]
    assert notes[:5] == [None, "empty", "not UTF-8 at byte 9", None, None]
    assert notes[5] == "5001 tokens, more than --max-tokens 4096" and notes[6] is None
    assert [len(record["hypotheses"]) for record in records] == [1, 0, 0, 1, 1, 0, 1]
    texts = [r["hypotheses"][0]["text"] if r["hypotheses"] else "" for r in records]
    assert shown.out.splitlines() == texts
    assert "7 sentences in" in shown.err
    assert "3 lines skipped, first line 2 (empty)." in shown.err


def without_numbers(records):
    return [[h["text"] for h in record["hypotheses"]] for record in records]


@pytest.mark.slow
def test_lines_read_one_by_one_are_answered_as_those_read_together(answered):
    content = "\n".join(ENGLISH[:5]).encode()
    options = ("--beam", "3", "--nbest", "3", "--max-len-b", "6")
    together, _ = answered(content, *options)
    apart, _ = answered(content, *options, "--buffer-size", "1", "--batch-size", "1")
    assert without_numbers(apart) == without_numbers(together)
    assert all(len(record["hypotheses"]) == 3 for record in together)


def test_a_split_is_answered_with_its_references_and_scored(answered, folder, tmp_path):
    records, shown = answered(b"", str(folder / "bin"), "--beam", "2", "--max-len-b", "8")
    assert [record["source"] for record in records] == ENGLISH
    assert [record["reference"] for record in records] == GERMAN
    scores = shown.err.splitlines()[-3:]
    assert [line.split()[0] for line in scores] == ["BLEU", "chrF2", "TER"]
    assert "nrefs:1|case:mixed" in scores[0]
    text = (tmp_path / "out.txt").read_text().splitlines()
    first = records[0]["hypotheses"][0]
    assert text[0] == f"S-1\t{ENGLISH[0]}" and text[1] == f"T-1\t{GERMAN[0]}"
    assert text[2] == f"H-1\t{first['score']:.6f}\t{first['text']}"
    assert len(text[3].split("\t")[1].split()) == len(first["log_probabilities"])


@pytest.mark.slow
def test_one_model_twice_writes_what_it_writes_alone_and_two_models_something_else(answered):
    content = "\n".join(ENGLISH[:5]).encode()
    alone, twice, both = (
        answered(content, "--max-len-b", "6", path=path)[0]
        for path in (("run",), ("run", "run"), ("run", "other"))
    )
    assert without_numbers(alone) == without_numbers(twice)
    first, second = (r[0]["hypotheses"][0]["score"] for r in (alone, twice))
    assert first == pytest.approx(second, abs=1e-5)
    assert both[0]["hypotheses"][0]["score"] != pytest.approx(first, abs=1e-3)


def test_the_score_of_a_hypothesis_is_that_of_it_as_a_reference(answered):
    (written,), _ = answered(b"a dog runs far", "--max-len-b", "6")
    found = written["hypotheses"][0]
    pair = f"a dog runs far\t{found['text']}".encode()
    (told,), shown = answered(pair, "--score-reference")
    again = told["hypotheses"][0]
    assert again["log_probabilities"] == pytest.approx(found["log_probabilities"], abs=1e-5)
    assert again["score"] == pytest.approx(found["score"], abs=1e-5)
    assert "Perplexity of the references" in shown.err
    assert (told["source"], told["reference"]) == ("a dog runs far", found["text"])


def test_what_was_not_scored_has_no_score_and_no_part_in_the_perplexity(answered):
    _, shown = answered(b"a dog\n", "--score-reference")
    assert shown.out == "1\t\t\n" and "Perplexity" not in shown.err
    assert "1 line skipped: line 1 (no tab followed by text)." in shown.err
    _, shown = answered(b"a dog\na dog\tein hund\n", "--score-reference")
    assert shown.out.startswith("1\t\t\n2\t-") and "Perplexity of 1 of 2 references" in shown.err


def test_hypotheses_begin_with_their_prefixes(answered, folder):
    (one, two), _ = answered(b"a dog runs far\tzwei hunde\nthe cat\tdie\n", "--prefixes")
    assert one["hypotheses"][0]["text"].startswith("zwei hunde")
    assert two["hypotheses"][0]["text"].startswith("die")
    (long, bare), _ = answered(b"a\tzwei hunde\na\n", "--prefixes", "--max-len-b", "1")
    assert long["note"] == "a prefix of 2 tokens, more than the maximum of 1"
    assert bare["note"] == "no tab followed by text"
    records, _ = answered(b"", str(folder / "bin"), "--prefix-size", "2")
    for record, reference in zip(records, GERMAN, strict=True):
        begin = " ".join(reference.split()[:2])
        assert record["hypotheses"][0]["text"].startswith(begin)


@pytest.mark.slow
def test_alignments_pair_tokens_of_the_source_with_those_written(answered):
    (hard,), shown = answered(b"a dog runs far", "--print-alignment", "hard", "--min-len", "3")
    pairs = hard["hypotheses"][0]["alignment"]
    assert [symbol for _, symbol in pairs] == list(range(len(pairs))) and len(pairs) >= 3
    assert all(0 <= source < 4 for source, _ in pairs)
    assert shown.out.splitlines()[0].split("\t")[1].split()[0] == "{}-{}".format(*pairs[0])
    (soft,), _ = answered(b"a dog runs far", "--print-alignment", "soft", "--min-len", "3")
    shares = soft["hypotheses"][0]["alignment"]
    assert [max(range(4), key=row.__getitem__) for row in shares] == [s for s, _ in pairs]


@pytest.mark.slow
def test_what_is_drawn_depends_on_the_seed_and_the_line_alone(answered):
    options = ("--sampling", "--beam", "2", "--nbest", "2", "--max-len-b", "8")
    first, again = (answered(b"a dog\na dog", *options)[0] for _ in range(2))
    assert without_numbers(first) == without_numbers(again)
    other, _ = answered(b"a dog\na dog", *options, "--seed", "5")
    assert without_numbers(other) != without_numbers(first)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--beam", "50"], "beam must be at most the symbols that can be written, "),
        (["--task", "mlm"], "--task mlm does not match the checkpoint"),
        (["--order"], "no option is called --order"),
        (["--nbest", "9"], "nbest must be at most beam (5), but is 9"),
        (["--beam", "4", "--diverse-beam-groups", "3"], "beam must be a multiple of"),
        (["--temperature", "2"], "--temperature requires --sampling"),
        (["--top", "9"], "no option is called --top"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(folder, capsys, words, message):
    assert main(["--path", str(folder / "run"), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_model_that_fills_masks_rejects_options_of_text_generation(finished, capsys):
    path = str(finished)
    for words, message in (
        (["--beam", "3", "--path", path], "no option is called --beam"),
        (["data", "--path", path], "unexpected argument 'data'"),
        (["--path", path, path], "--path must name one checkpoint"),
    ):
        assert main(words) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize("path", ["", "."])
def test_results_need_a_name(path):
    c = TranslateConfig(path=["run"], results_path=path)
    with (
        pytest.raises(ToolkitError, match="--results-path must name a file"),
        open_writers(c, Output(None), *FORMATS),
    ):
        pass


def test_the_input_is_not_written_over(tmp_path):
    (tmp_path / "in.txt").write_text("a dog\n")
    source, results = (str(tmp_path / name) for name in ("in.txt", "in.jsonl"))
    c = TranslateConfig(path=["run"], input=source, results_path=results)
    with (
        pytest.raises(ToolkitError, match="--results-path would overwrite the input"),
        open_writers(c, Output(None), *FORMATS),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    assert (tmp_path / "in.txt").read_text() == "a dog\n"


def test_records_and_figures_are_two_files(tmp_path):
    for results, figures in (("out.jsonl", "out.jsonl"), ("out.jsonl", "out.txt")):
        names = {"results_path": str(tmp_path / results), "json": str(tmp_path / figures)}
        with (
            pytest.raises(ToolkitError, match="--json and --results-path must name different"),
            open_writers(TranslateConfig(path=["run"], **names), Output(None), *FORMATS),
        ):
            pass


@pytest.mark.parametrize(("lowercase", "case"), [(True, "lc"), (False, "mixed")])
def test_what_is_written_in_lower_case_is_compared_so(capsys, lowercase, case):
    tally, said, true = GenerationSummary(), "ein hund rennt weit", "Ein Hund rennt weit"
    tally.update([GenerationOutput(1, "a dog", [GeneratedText(said, -0.5, [-1.0])], true)])
    c = TranslateConfig(path=["run"], dirs=["bin"])
    tally.report(c, Output(None), 1.0, lowercase=lowercase)
    bleu = capsys.readouterr().err.splitlines()[1]
    assert bleu.startswith("BLEU 100.00") == lowercase and f"case:{case}" in bleu


def test_a_language_model_writes_on(folder, data, tmp_path, monkeypatch, capsys):
    options = {"arch": "transformer_lm_tiny", "task": "language_modeling", "arch.layers": 1}
    place = {"data.dirs": [str(data)], "save_dir": str(tmp_path / "lm")}
    run(compose({**SMALL, **options, **place, "task.tokens_per_sample": 16}))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat\n\nthe dog saw how\n")))
    words = ["--path", str(tmp_path / "lm"), "--beam", "2", "--max-len-b", "5"]
    assert main(words) == 0
    first, empty, last = capsys.readouterr().out.splitlines()
    assert not first.startswith("the cat") and empty == ""
    assert last
