"""toolkit-generate with generative models: one output per line, in order."""

from __future__ import annotations

import io
import json
import sys

import pytest

from toolkit import load_checkpoint
from toolkit.cli.generate import infer_mode, main
from toolkit.cli.preprocess import main as preprocess
from toolkit.commands.generate import GenerationSummary, check_mode, generate
from toolkit.commands.text_io import open_writers
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import ARCHITECTURES, TASKS
from toolkit.config.commands.generate import FillMaskConfig, OrderConfig, TranslateConfig
from toolkit.config.load import compose
from toolkit.config.sections import ComponentConfig
from toolkit.generation.output import GeneratedText, GenerationOutput
from toolkit.models.interface import Sizes
from toolkit.reporting.console import Output
from toolkit.tasks.build import build_learner
from toolkit.training.run import run

LINES = b"the [MASK] sat\n\nno gap\n[MASK] and [MASK]\xff\n[MASK]" + b" a" * 5000 + b"\nthe [MASK]"


@pytest.fixture
def path(finished):
    return str(finished)


@pytest.fixture
def stdin(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def test_fill_mask_writes_one_output_per_line_in_order(path, tmp_path, stdin, capsys):
    stdin(LINES)
    results = tmp_path / "outputs.jsonl"
    assert (
        main(["--task", "mlm", "--path", path, "--top", "2", "--results-path", str(results)]) == 0
    )
    printed = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    outputs = [json.loads(line) for line in results.read_text().splitlines()]
    assert [row[0][:6] for row in printed] == ["the [M", "", "no gap", "[MASK]", "[MASK]", "the [M"]
    assert [output["line"] for output in outputs] == [1, 2, 3, 4, 5, 6]
    assert [len(output["masks"]) for output in outputs] == [1, 0, 0, 0, 0, 1]
    notes = ["empty", "no [MASK]", "not UTF-8 at byte 18"]
    assert [output["note"] for output in outputs[1:4]] == notes
    assert outputs[4]["note"].endswith("more than --max-tokens 4096")


def test_fill_mask_predicts_what_the_learner_predicts(path, tmp_path):
    results, text = tmp_path / "outputs.jsonl", tmp_path / "text"
    text.write_text("the [MASK] sat\na [MASK] saw how dogs run far\n")
    generate(FillMaskConfig(path=[path], input=str(text), top=3, results_path=str(results)))
    learner = load_checkpoint(path)
    for line in results.read_text().splitlines():
        output = json.loads(line)
        [predicted] = [[(c["token"], c["probability"]) for c in mask] for mask in output["masks"]]
        [expected] = learner.fill_mask(output["text"], top=3)
        assert dict(predicted) == pytest.approx(dict(expected), rel=1e-4)


def test_order_reorders_words_with_an_mpm_model(data, tmp_path, stdin, capsys):
    one = {"training.max_update": 1, "batch_size": 8, "num_workers": 0, "device": "cpu"}
    run(
        compose(
            {"arch": "taco_tiny", "task": "mpm", "data.dirs": [str(data)], **one}
            | {"save_dir": str(tmp_path / "run")}
        )
    )
    stdin(b"the cat {sat} on {mats}\n\nsat\nthe cat\n")
    results = tmp_path / "outputs.jsonl"
    words = ["order", "--path", str(tmp_path / "run"), "--results-path", str(results)]
    assert main(words) == 0
    first, empty, one, last = map(json.loads, results.read_text().splitlines())
    assert first["sentence"].startswith("the cat") and len(first["masks"]) >= 2
    assert empty["note"] == "fewer than two words to order" and "sentence" not in empty
    assert sorted(last["sentence"].split()) == ["cat", "the"]
    assert capsys.readouterr().out.splitlines()[0].split("\t")[1] == first["sentence"]
    assert one["line"] == 3


def test_check_mode_rejects_checkpoints_of_other_tasks():
    arch, task = ARCHITECTURES["bert_tiny"], TASKS["encode"]
    components = ComponentConfig("bert_tiny", arch.config), ComponentConfig("encode", task.config)
    learner = build_learner(*components, Sizes(tokens=9))
    message = "a model trained with --task mpm; run was trained with --task encode"
    with pytest.raises(ToolkitError, match=message):
        check_mode(OrderConfig(path=["run"]), "run", learner.task)


def test_infer_mode_follows_the_task_of_the_checkpoint(path, tmp_path, capsys):
    assert infer_mode(["--path", path, "--top", "3"]) == "fill-mask"
    (tmp_path / "c.yaml").write_text(f"path: {path}\n")
    assert infer_mode(["--config", str(tmp_path / "c.yaml")]) == "fill-mask"
    assert infer_mode(["--top", "3"]) == ""
    assert main(["--path", str(tmp_path / "none")]) == 2
    assert "No such checkpoint: " in capsys.readouterr().err
    assert main(["--top", "3"]) == 2
    assert "toolkit-generate needs a MODE or --path" in capsys.readouterr().err


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
    folder = tmp_path_factory.mktemp("parallel")
    for name, lines in (("en", ENGLISH), ("de", GERMAN)):
        (folder / f"t.{name}").write_text("".join(f"{line}\n" for line in lines))
    prefix = str(folder / "t")
    words = ["--source-lang", "en", "--target-lang", "de", "--trainpref", prefix]
    words += ["--validpref", prefix, "--testpref", prefix, "--destdir", str(folder / "bin")]
    assert preprocess([*words, "--tokenizer", "words", "--workers", "1"]) == 0
    trained(folder, "run", "translation", "transformer_tiny", 1)
    trained(folder, "other", "translation", "transformer_tiny", 2)
    return folder


def trained(folder, name, task, arch, seed):
    layers = {"arch.encoder_layers": 1, "arch.decoder_layers": 1}
    options = {"arch": arch, "task": task, "data.dirs": [str(folder / "bin")], "seed": seed}
    run(compose({**SMALL, **layers, **options, "save_dir": str(folder / name)}))


@pytest.fixture
def generated(folder, tmp_path, monkeypatch, capsys):
    """The JSON records and the captured text of the command for some lines."""

    def run_command(content, *words, path=("run",)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        results = tmp_path / "out.jsonl"
        paths = [str(folder / name) for name in path]
        given = ["--path", *paths, "--results-path", str(results), "--precision", "fp32"]
        assert main([*given, *words]) == 0
        return [json.loads(line) for line in results.read_text().splitlines()], capsys.readouterr()

    return run_command


GENERATED_LINES = (
    b"a dog runs far\r\n\nthe mat \xff\nzwei\nthe cat sat on the mat\n" + b"cat " * 5000 + b"\nend"
)


@pytest.mark.slow
def test_generate_writes_one_output_per_line_in_order(generated):
    records, captured = generated(GENERATED_LINES, "--beam", "2", "--max-len-b", "8")
    assert [record["line"] for record in records] == list(range(1, 8))
    assert records[0]["source"] == "a dog runs far"
    notes = [record["note"] for record in records]
    assert notes[:5] == [None, "empty", "not UTF-8 at byte 9", None, None]
    assert notes[5] == "5001 tokens, more than --max-tokens 4096" and notes[6] is None
    assert [len(record["hypotheses"]) for record in records] == [1, 0, 0, 1, 1, 0, 1]
    texts = [r["hypotheses"][0]["text"] if r["hypotheses"] else "" for r in records]
    assert captured.out.splitlines() == texts
    assert "7 sentences in" in captured.err
    assert "3 lines skipped, first line 2 (empty)." in captured.err


def without_numbers(records):
    return [[h["text"] for h in record["hypotheses"]] for record in records]


@pytest.mark.slow
def test_generate_is_independent_of_batches_and_buffers(generated):
    content = "\n".join(ENGLISH[:5]).encode()
    options = ("--beam", "3", "--nbest", "3", "--max-len-b", "6")
    together, _ = generated(content, *options)
    apart, _ = generated(content, *options, "--buffer-size", "1", "--batch-size", "1")
    assert without_numbers(apart) == without_numbers(together)
    assert all(len(record["hypotheses"]) == 3 for record in together)


def test_generate_scores_a_split_against_its_references(generated, folder, tmp_path):
    records, captured = generated(b"", str(folder / "bin"), "--beam", "2", "--max-len-b", "8")
    assert [record["source"] for record in records] == ENGLISH
    assert [record["reference"] for record in records] == GERMAN
    scores = captured.err.splitlines()[-3:]
    assert [line.split()[0] for line in scores] == ["BLEU", "chrF2", "TER"]
    assert "nrefs:1|case:mixed" in scores[0]
    text = (tmp_path / "out.txt").read_text().splitlines()
    first = records[0]["hypotheses"][0]
    assert text[0] == f"S-1\t{ENGLISH[0]}" and text[1] == f"T-1\t{GERMAN[0]}"
    assert text[2] == f"H-1\t{first['score']:.6f}\t{first['text']}"
    assert len(text[3].split("\t")[1].split()) == len(first["log_probabilities"])


@pytest.mark.slow
def test_ensemble_of_equal_models_generates_what_one_does(generated):
    content = "\n".join(ENGLISH[:5]).encode()
    alone, twice, both = (
        generated(content, "--max-len-b", "6", path=path)[0]
        for path in (("run",), ("run", "run"), ("run", "other"))
    )
    assert without_numbers(alone) == without_numbers(twice)
    first, second = (r[0]["hypotheses"][0]["score"] for r in (alone, twice))
    assert first == pytest.approx(second, abs=1e-5)
    assert both[0]["hypotheses"][0]["score"] != pytest.approx(first, abs=1e-3)


def test_forced_score_equals_the_score_of_the_hypothesis(generated):
    (output,), _ = generated(b"a dog runs far", "--max-len-b", "6")
    free = output["hypotheses"][0]
    pair = f"a dog runs far\t{free['text']}".encode()
    (scored,), captured = generated(pair, "--score-reference")
    forced = scored["hypotheses"][0]
    assert forced["log_probabilities"] == pytest.approx(free["log_probabilities"], abs=1e-5)
    assert forced["score"] == pytest.approx(free["score"], abs=1e-5)
    assert "Perplexity of the references" in captured.err
    assert (scored["source"], scored["reference"]) == ("a dog runs far", free["text"])


def test_hypotheses_begin_with_their_prefixes(generated, folder):
    (one, two), _ = generated(b"a dog runs far\tzwei hunde\nthe cat\tdie\n", "--prefixes")
    assert one["hypotheses"][0]["text"].startswith("zwei hunde")
    assert two["hypotheses"][0]["text"].startswith("die")
    (long, bare), _ = generated(b"a\tzwei hunde\na\n", "--prefixes", "--max-len-b", "1")
    assert long["note"] == "a prefix of 2 tokens, more than the maximum of 1"
    assert bare["note"] == "no tab followed by text"
    records, _ = generated(b"", str(folder / "bin"), "--prefix-size", "2")
    for record, reference in zip(records, GERMAN, strict=True):
        begin = " ".join(reference.split()[:2])
        assert record["hypotheses"][0]["text"].startswith(begin)


@pytest.mark.slow
def test_alignments_pair_source_and_target_tokens(generated):
    (hard,), captured = generated(b"a dog runs far", "--print-alignment", "hard", "--min-len", "3")
    pairs = hard["hypotheses"][0]["alignment"]
    assert [symbol for _, symbol in pairs] == list(range(len(pairs))) and len(pairs) >= 3
    assert all(0 <= source < 4 for source, _ in pairs)
    assert captured.out.splitlines()[0].split("\t")[1].split()[0] == "{}-{}".format(*pairs[0])
    (soft,), _ = generated(b"a dog runs far", "--print-alignment", "soft", "--min-len", "3")
    weights = soft["hypotheses"][0]["alignment"]
    assert [max(range(4), key=row.__getitem__) for row in weights] == [s for s, _ in pairs]


@pytest.mark.slow
def test_sampling_depends_only_on_seed_and_line(generated):
    options = ("--sampling", "--beam", "2", "--nbest", "2", "--max-len-b", "8")
    first, again = (generated(b"a dog\na dog", *options)[0] for _ in range(2))
    assert without_numbers(first) == without_numbers(again)
    other, _ = generated(b"a dog\na dog", *options, "--seed", "5")
    assert without_numbers(other) != without_numbers(first)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--beam", "50"], "beam must be at most the number of symbols that can be generated, "),
        (["--task", "mlm"], "--task mlm does not match the checkpoint"),
    ],
)
def test_generate_rejects_impossible_options_in_one_line(folder, capsys, words, message):
    assert main(["--path", str(folder / "run"), *words]) == 2
    assert message in capsys.readouterr().err


def test_results_path_cannot_be_the_input(tmp_path):
    (tmp_path / "in.txt").write_text("a dog\n")
    source, results = (str(tmp_path / name) for name in ("in.txt", "in.jsonl"))
    c = TranslateConfig(path=["run"], input=source, results_path=results)
    with (
        pytest.raises(ToolkitError, match="--input and --results-path must name different files"),
        open_writers(c, Output(None), *FORMATS),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    assert (tmp_path / "in.txt").read_text() == "a dog\n"


@pytest.mark.parametrize(("lowercase", "case"), [(True, "lc"), (False, "mixed")])
def test_scores_are_lowercased_for_lowercase_models(capsys, lowercase, case):
    summary, text, reference = GenerationSummary(), "ein hund rennt weit", "Ein Hund rennt weit"
    summary.update([GenerationOutput(1, "a dog", [GeneratedText(text, -0.5, [-1.0])], reference)])
    c = TranslateConfig(path=["run"], dirs=["bin"])
    summary.report(c, Output(None), 1.0, lowercase=lowercase, language="zh")
    bleu = capsys.readouterr().err.splitlines()[1]
    assert bleu.startswith("BLEU 100.00") == lowercase
    assert f"case:{case}" in bleu and "tok:zh" in bleu


def test_language_model_continues_prompts(folder, data, tmp_path, monkeypatch, capsys):
    options = {"arch": "transformer_lm_tiny", "task": "language_modeling", "arch.layers": 1}
    paths = {"data.dirs": [str(data)], "save_dir": str(tmp_path / "lm")}
    run(compose({**SMALL, **options, **paths, "task.tokens_per_sample": 16}))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat\n\nthe dog saw how\n")))
    words = ["--path", str(tmp_path / "lm"), "--beam", "2", "--max-len-b", "5"]
    assert main(words) == 0
    first, empty, last = capsys.readouterr().out.splitlines()
    assert not first.startswith("the cat") and empty == ""
    assert last
