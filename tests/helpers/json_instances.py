"""A small instance of every kind of JSON file that the toolkit reads, and commands that read it."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import traceback
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tests.helpers.signed_files import sign_data_files, sign_files
from toolkit.checkpoints.save_folder import manifest_text
from toolkit.common.json_files import JsonObject, digest_json

LINES = ["the cat sat on a mat", "dogs run far and the cat saw", "a mat and how the dogs run"]
TAGGED = "".join(
    f"{n}\t{w}\t_\t{t}\t_\t_\t0\t_\t_\t_\n"
    for n, w, t in [(1, "the", "DET"), (2, "dog", "NOUN"), (3, "barks", "VERB")]
)
CONLLU = (TAGGED + "\n" + TAGGED.replace("barks\t_\tVERB", "barks\t_\tNOUN") + "\n") * 4
SHAPE = (
    "--arch composite_bert_tiny --arch.layers 1 --arch.width 16 --arch.heads 2 --batch-size 4 "
    "--num-workers 0 --precision fp32 --logging.progress lines --arch.embedding-width 8"
)


OBSERVED = "--ema-decay 0.9 --lr-scheduler plateau --skip-spikes true"


def run(words: list[str]) -> tuple[int | str, str]:
    """Exit code and stderr of a command in this process; "traceback" for an exception."""
    name, *argv = words
    stderr = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(stderr):
        try:
            return import_module(f"toolkit.cli.{name}").main(argv), stderr.getvalue()
        except SystemExit as error:
            return int(error.code or 0), stderr.getvalue()
        except BaseException:
            return "traceback", traceback.format_exc()


def must(line: str) -> None:
    code, stderr = run(line.split())
    assert code == 0, stderr


def both(path: Path) -> str:
    """The same file for training and validation."""
    return f"--trainpref {path} --validpref {path}"


class Instances:
    """Folders, each made when it is first needed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    def preprocess(self, name: str, options: str) -> Path:
        target = self.path / name
        must(f"preprocess {options} --destdir {target} --workers 1")
        return target

    def train(self, name: str, data: Path, options: str) -> Path:
        target = self.path / name
        must(f"train {data} {SHAPE} {options} --save-dir {target}")
        return target

    @cached_property
    def lines(self) -> Path:
        return self.write("lines.txt", "\n".join(LINES * 8) + "\n")

    @cached_property
    def text(self) -> Path:
        return self.preprocess("text", f"{both(self.lines)} --tokenizer words")

    @cached_property
    def table(self) -> Path:
        rows = "".join(f"{line}\t{'ab'[n % 2]}\n" for n, line in enumerate(LINES * 4))
        table = self.write("table.tsv", f"sentence\tlabel\n{rows}")
        return self.preprocess("table", f"--format tsv {both(table)} --vocab-size 40")

    @cached_property
    def tags(self) -> Path:
        treebank = self.write("tags.conllu", CONLLU)
        return self.preprocess("tags", f"--format conllu {both(treebank)}")

    @cached_property
    def pairs(self) -> Path:
        for language in ("xx", "yy"):
            self.write(f"pairs.{language}", "\n".join(LINES * 3) + "\n")
        languages = "--source-lang xx --target-lang yy --tokenizer words"
        return self.preprocess("pairs-bin", f"{both(self.path / 'pairs')} {languages}")

    @cached_property
    def questions_file(self) -> Path:
        answers = [{"text": "the cat", "answer_start": 0}]
        qas = [{"id": f"q{n}", "question": "who sat?", "answers": answers} for n in range(3)]
        paragraphs = [{"context": LINES[0], "qas": qas}]
        content = {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
        return self.write("questions/squad.json", json.dumps(content)).parent

    @cached_property
    def questions(self) -> Path:
        files = both(self.questions_file / "squad.json")
        return self.preprocess("questions-bin", f"--format squad {files} --tokenizer words")

    @cached_property
    def passages(self) -> Path:
        content = {
            "article": LINES[0],
            "questions": ["who _ ?"] * 2,
            "options": [["a cat", "a dog"]] * 2,
            "answers": ["A", "B"],
        }
        return self.write("passages/1.txt", json.dumps(content)).parent

    @cached_property
    def choices(self) -> Path:
        files = both(self.passages)
        return self.preprocess("choices", f"--format race {files} --tokenizer words")

    @cached_property
    def rows(self) -> Path:
        return self.write("rows/rows.jsonl", json.dumps({"text": LINES[0], "n": 1})).parent

    @cached_property
    def dataset(self) -> Path:
        self.write("dataset/train/a.jsonl", json.dumps({"text": LINES[0]}) + "\n")
        state = {"_data_files": [{"filename": "a.jsonl"}], "_fingerprint": "x"}
        self.write("dataset/train/state.json", json.dumps({**state, "_format_type": None}))
        self.write("dataset/dataset_dict.json", json.dumps({"splits": ["train"]}))
        return self.path / "dataset"

    @cached_property
    def run_folder(self) -> Path:
        return self.train("run", self.text, f"--task mlm --max-epoch 2 {OBSERVED}")

    @cached_property
    def classifier(self) -> Path:
        return self.train("classifier", self.table, "--task glue --max-update 1")

    @cached_property
    def tagger(self) -> Path:
        return self.train("tagger", self.tags, "--task pos_tagging --max-update 1")

    @cached_property
    def sweep(self) -> Path:
        return self.train("sweep", self.text, "--task mlm --max-update 1 --sweep.seeds 1")

    @cached_property
    def bert(self) -> Path:
        from tests.conversion.conftest import small, write_vocabulary

        folder = self.path / "bert"
        model = small("BertForSequenceClassification", num_labels=2)
        model.save_pretrained(folder, max_shard_size="10KB")
        write_vocabulary(folder)
        settings = {"do_lower_case": True, "tokenize_chinese_chars": True, "strip_accents": None}
        settings |= {"mask_token": {"content": "[MASK]"}}
        self.write("bert/tokenizer_config.json", json.dumps(settings))
        self.write("bert/special_tokens_map.json", json.dumps({"mask_token": "[MASK]"}))
        return folder

    @cached_property
    def bert_json(self) -> Path:
        folder = shutil.copytree(self.bert, self.path / "bert_json")
        must(f"convert import {self.bert} {self.path}/bert-toolkit")
        must(f"convert export {self.path}/bert-toolkit {self.path}/bert-hf")
        shutil.copy(self.path / "bert-hf" / "tokenizer.json", folder)
        return folder

    @cached_property
    def imported(self) -> Path:
        assert self.bert_json
        return self.path / "bert-toolkit"

    @cached_property
    def exported(self) -> Path:
        target = self.path / "exported"
        must(f"convert export {self.classifier}/checkpoint_last {target} --classes toolkit")
        return target


def plain(folder: Path, file: str, text: str) -> None:
    (folder / file).unlink()
    (folder / file).write_text(text, "utf-8", errors="surrogatepass")


def first_line(folder: Path, file: str, text: str) -> None:
    """Replace the first line of a log."""
    rest = (folder / file).read_text("utf-8").partition("\n")[2]
    plain(folder, file, f"{text}{rest}")


def in_checkpoint(folder: Path, file: str, text: str) -> None:
    """Replace a file of a checkpoint, and sign it again."""
    plain(folder, file, text)
    sign_files((folder / file).parent, Path(file).name)


def in_data(folder: Path, file: str, text: str) -> None:
    """Replace a file of a data folder, and sign it again."""
    plain(folder, file, text)
    sign_data_files(folder, file)


def signed_manifest(folder: Path, file: str, text: str) -> None:
    """Replace a manifest with its digest."""
    plain(folder, file, sign(text, manifest_text))


def signed(folder: Path, file: str, text: str) -> None:
    """Replace meta.json or plan.json with its digest."""
    plain(folder, file, sign(text, lambda it: json.dumps({**it, "digest": digest_json(it)})))


def sign(text: str, to_text: Callable[[JsonObject], str]) -> str:
    """The text with its digest, or as it is if it is no object."""
    try:
        content = json.loads(text)
        content.pop("digest", None)
        return to_text(content)
    except (ValueError, RecursionError, AttributeError, TypeError):
        return text


Lines = Callable[[Path, Instances], list[str]]


class Kind(NamedTuple):
    instance: str
    file: str
    change: Callable[[Path, str, str], None]
    commands: Lines
    count: int = 2

    def replace(self, folder: Path, text: str) -> None:
        self.change(folder, self.file, text)

    def __str__(self) -> str:
        return f"{self.instance}/{self.file}"


def checkpoint(task: str, data: str) -> Lines:
    """Commands that read a checkpoint and its save folder."""

    def commands(folder: Path, at: Instances) -> list[str]:
        last, corpus = folder / LAST, getattr(at, data)
        more = OBSERVED if task == "mlm" else ""
        start = f"train {corpus} {SHAPE} --task {task} --max-update 14 --save-dir"
        return [
            f"{start} {folder} --max-epoch 9 {more}",
            f"inspect {last}",
            f"validate {corpus} --path {last}",
            f"inspect {last} --flops",
            f"convert export {last} {folder}/out --classes toolkit",
            f"average {folder} --last 2 --output {folder}/mean",
            f"generate --path {last} --input {at.lines}",
            f"predict --path {last} --input {at.lines}",
            f"{start} {folder}/new --finetune-from {last}",
            f"{start} {folder}/new --restore-file {last}",
            f"preprocess --tokenizer-from {last} --trainpref {at.lines} --destdir {folder}/data",
        ]

    return commands


def inspect_data(task: str) -> Lines:
    train = f"{SHAPE} --task {task} --max-update 1"
    return lambda folder, at: [
        f"inspect {folder}",
        f"train {folder} {train} --save-dir {folder}/run",
    ]


def convert(folder: Path, at: Instances) -> list[str]:
    return [f"convert import {folder} {folder}/out"]


def export(folder: Path, at: Instances) -> list[str]:
    return [f"convert export {folder} {folder}/out"]


def preprocess(options: str, file: str = "") -> Lines:
    """Read a file of the folder, or the folder."""
    words = f"preprocess {options} --tokenizer words --workers 1"
    return lambda folder, at: [f"{words} --trainpref {folder / file} --destdir {folder}/out"]


def plot(folder: Path, at: Instances) -> list[str]:
    return [f"plot curve {folder} --output {folder}/a.png"]


LAST = "checkpoint_last"
KINDS = [
    Kind("run_folder", f"{LAST}/manifest.json", signed_manifest, checkpoint("mlm", "text")),
    Kind("run_folder", f"{LAST}/config.json", in_checkpoint, checkpoint("mlm", "text")),
    Kind("run_folder", f"{LAST}/state.json", in_checkpoint, checkpoint("mlm", "text"), 20),
    Kind("run_folder", f"{LAST}/tokenizer_config.json", in_checkpoint, checkpoint("mlm", "text")),
    Kind("run_folder", "metrics.jsonl", first_line, checkpoint("mlm", "text")),
    Kind("run_folder", "metrics.jsonl", first_line, plot),
    Kind("run_folder", "environment.json", plain, checkpoint("mlm", "text")),
    Kind("classifier", f"{LAST}/labels.json", in_checkpoint, checkpoint("glue", "table")),
    Kind("tagger", f"{LAST}/tagging.json", in_checkpoint, checkpoint("pos_tagging", "tags")),
    Kind("text", "meta.json", signed, inspect_data("mlm"), 14),
    Kind("table", "meta.json", signed, inspect_data("glue")),
    Kind("table", "labels.json", in_data, inspect_data("glue")),
    Kind("tags", "meta.json", signed, inspect_data("pos_tagging")),
    Kind("tags", "tagging.json", in_data, inspect_data("pos_tagging")),
    Kind("pairs", "meta.json", signed, inspect_data("translation")),
    Kind("pairs", "tokenizer_config.json", in_data, inspect_data("translation")),
    Kind("questions", "meta.json", signed, inspect_data("squad")),
    Kind("choices", "meta.json", signed, inspect_data("multiple_choice")),
    Kind("questions_file", "squad.json", plain, preprocess("--format squad", "squad.json")),
    Kind("passages", "1.txt", plain, preprocess("--format race", "1.txt")),
    Kind("rows", "rows.jsonl", plain, preprocess("--text-field text")),
    Kind("dataset", "train/state.json", plain, preprocess("--text-field text")),
    Kind("dataset", "dataset_dict.json", plain, preprocess("--text-field text")),
    Kind("sweep", "seed=1/result.json", plain, plot, 14),
    Kind("sweep", "seed=1/options.yaml", plain, plot),
    Kind("bert", "config.json", plain, convert, 20),
    Kind("bert", "tokenizer_config.json", plain, convert),
    Kind("bert", "special_tokens_map.json", plain, convert),
    Kind("bert", "model.safetensors.index.json", plain, convert),
    Kind("bert_json", "tokenizer.json", plain, convert, 14),
    Kind("imported", "hugging_face.json", in_checkpoint, export, 14),
    Kind("exported", "config.json", plain, convert, 14),
    Kind("exported", "toolkit_tokenizer.json", plain, convert),
]
