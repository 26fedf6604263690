"""Small data folders, models and files for every command, and command lines that read them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RUN = "--batch-size 8 --num-workers 0 --max-update 1 --max-epoch 1 --device cpu --save-dir out"
WORDS = "--tokenizer words --workers 1"
COMMAND_LINES = {  # command and config class -> words after the command; they write into out*
    "average AverageConfig": "{run} --last 1 --output out",
    "convert BabylmConfig": "{run} out",
    "convert ExportConfig": "{run}/checkpoint_last out --classes toolkit",
    "convert ImportConfig": "{exported} out",
    "convert OnnxConfig": "{run}/checkpoint_last out --batch 1 --length 8",
    "generate TranslateConfig": "--path {translator} --input text.txt --max-len-b 5",
    "generate ContinueConfig": "--path {lm} --input text.txt --max-len-b 5",
    "generate FillMaskConfig": "--path {run} --input text.txt",
    "generate OrderConfig": "--path {mpm} --input text.txt",
    "generate SurprisalConfig": "--path {lm} --input text.txt",
    "generate ScoreConfig": "text.txt text.txt",
    "inspect InspectConfig": "{run} --device cpu",
    "inspect RunConfig": "--flops --arch bert_tiny --batch-size 1 --tokens-per-sample 8",
    "plot CurveConfig": "{run} --output out.png",
    "plot KernelsConfig": "--path {run} --output out.png --device cpu",
    "plot AttentionConfig": "--path {run} --sentence cat --output out.png --device cpu",
    "plot PerturbationConfig": "--path {run} --sentences text.txt --output out.png --device cpu",
    "plot ConfusionConfig": "{folder}/confusion.jsonl --output out.png",
    "plot PairPlotConfig": "{folder}/accuracies.jsonl --output out.png",
    "predict PredictConfig": "--path {tagger} --input text.txt --device cpu",
    "preprocess PreprocessConfig": "--trainpref {folder}/text.txt --destdir out " + WORDS,
    "train RunConfig": "{data} --arch composite_bert_tiny --task mlm " + RUN,
    "validate ValidateConfig": "{data} --path {run} --num-workers 0 --device cpu",
    "validate ReadingTimesConfig": "{folder}/times.jsonl --task reading_times --path {run} "
    "--measures time --device cpu",
    "validate AcquisitionConfig": "{folder}/times.jsonl --task age_of_acquisition --path {run} "
    "--age time --device cpu",
    "validate CompletionsConfig": "{folder}/sentences.jsonl --task minimal_pairs --path {run} "
    "--device cpu",
}
MODELS = {  # name -> architecture, task and data
    "run": "{data} --arch composite_bert_tiny --task mlm",
    "mpm": "{data} --arch composite_bert_tiny --task mpm",
    "lm": "{data} --arch transformer_lm_tiny --task language_modeling",
    "translator": "{pairs} --arch transformer_tiny --task translation",
    "tagger": "{tags} --arch bert_tiny --task pos_tagging",
}
DATA = {  # name -> options of toolkit-preprocess
    "data": "--trainpref {folder}/text.txt --validpref {folder}/text.txt --tokenizer words",
    "pairs": "--trainpref {folder}/pair --validpref {folder}/pair --tokenizer words "
    "--source-lang en --target-lang de",
    "tags": "--trainpref {folder}/tags.txt --validpref {folder}/tags.txt --format columns",
}
JSON_LINES = {
    "confusion": {
        **{"event": "confusion", "checkpoint": "a", "subset": "valid"},
        **{"true": ["N", "V"], "predicted": ["N", "V"], "counts": [[2, 1], [0, 3]]},
    },
    "accuracies": {"UID": "wh_island", "linguistics_term": "island_effects", "gpt2": 0.792},
    "times": {"sentence": "the cat sat", "word": "sat", "context_length": 2, "time": 310.5},
    "sentences": {"sentence_good": "the cat sat", "sentence_bad": "the cat run", "UID": "a"},
}

Main = Callable[[Sequence[str]], int]


def make_inputs(folder: Path, mains: Mapping[str, Main]) -> dict[str, str]:
    """Write the inputs; returns the values of the fields in COMMAND_LINES."""
    (folder / "text.txt").write_text("the cat sat on a mat\nhow far dogs run\n" * 20)
    (folder / "tags.txt").write_text("the D\ncat N\n\ndogs N\nrun V\n\n" * 8)
    for language in ("en", "de"):
        (folder / f"pair.{language}").write_text("the cat\nthe dog\n" * 20)
    for name, record in JSON_LINES.items():
        (folder / f"{name}.jsonl").write_text(json.dumps(record) + "\n")
    fields = {name: str(folder / name) for name in [*MODELS, *DATA]} | {"folder": str(folder)}
    for name, words in DATA.items():
        argv = f"{words} --workers 1 --destdir {folder / name}".format(**fields).split()
        assert mains["preprocess"](argv) == 0, argv
    for name, words in MODELS.items():
        argv = f"{words} {RUN}".format(**fields).split()
        assert mains["train"]([*argv[:-1], fields[name]]) == 0, argv
    fields["exported"] = str(folder / "exported")
    words = ["export", fields["run"], fields["exported"], "--classes", "toolkit"]
    assert mains["convert"](words) == 0
    return fields
