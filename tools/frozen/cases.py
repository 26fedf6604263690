"""What the record of frozen answers covers: data, trainings, and the commands applied to them.

A command line may have several spellings, separated by " || "; the first that is no error counts,
so that an option can change its name without a new record.
"""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

NOUNS = ["cat", "dog", "horse", "bird", "child", "teacher", "river", "garden", "house", "letter"]
VERBS = {"sees": "saw", "takes": "took", "likes": "liked", "finds": "found", "leaves": "left"}
PLACES = ["near", "under", "behind", "beside", "above"]
DATA = {  # folder -> options of toolkit-preprocess
    "pieces": "--trainpref text.txt --validpref held.txt --vocab-size 90",
    "words": "--trainpref text.txt --validpref held.txt --tokenizer words",
    "lower": "--trainpref text.txt --validpref held.txt --vocab-size 80 --lowercase",
    "wordpiece": "--trainpref text.txt --validpref held.txt --tokenizer wordpiece "
    "--wordpiece-vocab vocab.txt",
    "rows": "--trainpref rows.jsonl --validpref rows.jsonl --tokenizer-from pieces "
    "--format.segment-by sentences --format.text-field text",
    "glue": "--format tsv --trainpref labels.tsv --validpref labels.tsv --tokenizer-from pieces",
    "numbers": "--format tsv --format.text-columns first,second --format.label-type number "
    "--trainpref pairs.tsv --validpref pairs.tsv --tokenizer-from pieces",
    "squad": "--format squad --trainpref squad.json --validpref squad.json --tokenizer-from pieces",
    "swag": "--format swag --trainpref swag.csv --validpref swag.csv --tokenizer-from pieces",
    "tags": "--format conllu --trainpref tags.conllu --validpref tags.conllu "
    "--tokenizer-from pieces",
    "tagged": "--format conllu --trainpref tags.conllu --validpref tags.conllu",
    "spans": "--format columns --trainpref spans.txt --validpref spans.txt --tokenizer-from pieces",
    "parallel": "--trainpref pair --validpref pair --source-lang en --target-lang de "
    "--tokenizer words",
    "joined": "--trainpref pair --validpref pair --source-lang en --target-lang de "
    "--joined-dictionary --vocab-size 60",
}
ARCHITECTURES = [
    *("bert_tiny", "composite_bert_tiny", "taco_tiny", "convbert_tiny", "deberta_tiny"),
    *("modernbert_tiny", "conv_san_ud", "transformer_tiny", "lightconv_tiny"),
    *("dynamicconv_tiny", "transformer_lm_tiny"),
]
TASKS = {  # task -> data folders
    "mlm": ["pieces"],
    "mpm": ["pieces"],
    "rtd": ["pieces"],
    "language_modeling": ["words"],
    "glue": ["glue", "numbers"],
    "squad": ["squad"],
    "multiple_choice": ["swag"],
    "pos_tagging": ["tags", "tagged"],
    "span_tagging": ["spans"],
    "translation": ["parallel", "joined"],
}
VARIANTS = [  # of one architecture: task, data, architecture, options
    *[
        f"mlm pieces bert_tiny --arch.positions {name}"
        for name in (
            *("none", "sinusoidal", "rope", "alibi", "t5", "shaw", "xl", "deberta"),
            *("fixed", "composite"),
        )
    ],
    "mlm pieces bert_tiny --arch.positions learned,t5,shaw --arch.radius 3",
    "mlm pieces bert_tiny --arch.positions shaw --arch.shaw-values",
    "mlm pieces modernbert_tiny --arch.attention-window 6 --arch.global-every 2",
    "mlm pieces composite_bert_tiny --arch.depthwise --arch.convolve query,key",
    "mlm pieces composite_bert_tiny --arch.key-dynamic --arch.absolute-positions",
    "mlm lower composite_bert_tiny --arch.pre-norm",
    "mlm wordpiece convbert_tiny --arch.conv-type dynamic --arch.head-ratio 1",
    "mlm rows convbert_tiny --arch.conv-type conventional --arch.groups 2",
    "mpm words taco_tiny --update-freq 2 --batch-size 4",
    "rtd pieces deberta_tiny --optimizer lamb",
    *[
        f"language_modeling words transformer_lm_tiny --arch.positions {positions}"
        for positions in (
            "learned",
            "none",
            *("rope", "alibi", "t5", "shaw", "composite"),
        )
    ],
    "translation joined transformer_tiny --arch.share-embeddings all --arch.pre-norm",
    "pos_tagging tagged conv_san_ud --arch.relative-table --arch.positions concat",
    "pos_tagging tags bert_tiny --optimizer adafactor --lr-scheduler cosine",
    "mlm pieces bert_tiny --optimizer sgd --clip-norm 0 --training.ema-decay 0.9",
    "mlm pieces bert_tiny --optimizer rmsprop --lr-scheduler inverse_sqrt --warmup-updates 2",
    "mlm pieces bert_tiny --optimizer muon --precision bf16",
]
RUNS = {  # name of a run above -> short name, for the outputs
    "m": "mlm pieces composite_bert_tiny",
    "w": "mlm words bert_tiny",
    "p": "mpm pieces taco_tiny",
    "l": "language_modeling words transformer_lm_tiny",
    "t": "translation parallel transformer_tiny",
    "g": "glue glue bert_tiny",
    "n": "glue numbers convbert_tiny",
    "q": "squad squad bert_tiny",
    "c": "multiple_choice swag bert_tiny",
    "y": "pos_tagging tags bert_tiny",
    "s": "span_tagging spans bert_tiny",
    "k": "pos_tagging tagged conv_san_ud",
}
OUTPUTS = [  # command and its words; {m} is a run's folder
    *[f"inspect {folder} --examples 2 --verify" for folder in DATA],
    *[
        f"validate {{{key}.data}} --path {{{key}}} --predictions out.txt --num-workers 0"
        for key in "gnqcysk"
    ],
    *[f"validate {{{key}.data}} --path {{{key}}} --num-workers 0" for key in "mwplt"],
    "validate pairs.jsonl --task minimal_pairs --path {m} {l}",
    *[
        f"predict --path {{{key}}} --input {file}"
        for key, file in zip(
            "gycksq",
            (
                "held.txt",
                "held.txt",
                "questions.jsonl",
                "held.txt",
                "held.txt",
                "answers.jsonl",
            ),
            strict=True,
        )
    ],
    "generate translate --path {t} --input held.txt --max-len-b 6 --beam 3 --lenpen 0.8",
    "generate translate --path {t} --input held.txt --max-len-b 6 --nbest 2 --beam 2",
    "generate translate --path {t} --input held.txt --max-len-b 6 --sampling --seed 3 "
    "|| generate translate --path {t} --input held.txt --max-len-b 6 --search sampling --seed 3",
    "generate translate --path {t} --input held.txt --max-len-b 6 --beam 4 --diverse-beam-groups 2 "
    "|| generate translate --path {t} --input held.txt --max-len-b 6 --search diverse --beam 4",
    "generate continue --path {l} --input held.txt --max-len-b 6 --beam 2",
    "generate fill-mask --path {m} --input masks.txt",
    "generate order --path {p} --input held.txt",
    "generate score held.txt held.txt",
    "average {m} --last 1 --output averaged",
    "inspect {m} {g}",
    "inspect --flops --arch taco_tiny --task mpm --batch-size 2 --tokens-per-sample 16",
    "inspect {m} --word-order held.txt",
    "convert {w}/checkpoint_last exported --to hf || convert export {w}/checkpoint_last exported",
    "convert {m}/checkpoint_last exported --to hf || convert export {m}/checkpoint_last exported",
    "plot curve {m} --output curve.png",
    "plot kernels --path {m} --sentences held.txt --output kernels.png",
    "plot attention --path {m} --sentence cat --output attention.png",
]


def write_inputs(folder: Path) -> None:
    """The raw files that the data folders and commands read; the same everywhere."""
    draw = random.Random(7)

    def sentence() -> list[str]:
        subject, thing = draw.choice(NOUNS), draw.choice(NOUNS)
        verb = draw.choice(draw.choice(list(VERBS.items())))
        return ["The", subject, verb, "a", thing, draw.choice(PLACES), "the", draw.choice(NOUNS)]

    def write(name: str, text: str) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    lines = [sentence() for _ in range(240)]
    joined = [" ".join(line) for line in lines]
    write("text.txt", "\n".join("" if i % 40 == 39 else it for i, it in enumerate(joined)) + "\n")
    write("held.txt", "\n".join(joined[-12:]) + "\n")
    write("masks.txt", "The cat [MASK] a dog near the [MASK]\nA [MASK] river\n")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyzT"]
    pieces = [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    write("vocab.txt", "\n".join([*vocabulary, *pieces, "The", "the", *NOUNS[:5], "##es"]) + "\n")
    write("rows.jsonl", "".join(json.dumps({"text": f"{it}. Yes!"}) + "\n" for it in joined))
    labels = ["good" if "cat" in line else "bad" for line in lines]
    pairs = list(zip(joined, labels, strict=True))
    write("labels.tsv", "sentence\tlabel\n" + "".join(f"{s}\t{y}\n" for s, y in pairs))
    numbers = [f"{a}\t{b}\t{i % 7 / 2}\n" for i, (a, b) in enumerate(itertools.pairwise(joined))]
    write("pairs.tsv", "first\tsecond\tlabel\n" + "".join(numbers))
    questions = [
        {"id": str(i), "question": f"What did it {line[2]} ?", "answers": [answer(line)]}
        for i, line in enumerate(lines[:60])
    ]
    passages = [{"context": joined[i], "qas": [q]} for i, q in enumerate(questions)]
    write("squad.json", json.dumps({"version": "1.1", "data": [{"paragraphs": passages}]}))
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,"
    endings = [",".join(draw.sample(NOUNS, 4)) for _ in lines]
    rows = [
        f"{i},v,{i},{s},{s},,gold,{e},{i % 4}"
        for i, (s, e) in enumerate(zip(joined, endings, strict=False))
    ]
    write("swag.csv", "\n".join([header + "ending3,label", *rows]) + "\n")
    write("tags.conllu", "\n".join(map(conllu, lines[:80])) + "\n")
    write("spans.txt", "\n".join(map(spans, lines[:80])))
    write("pair.en", "\n".join(joined[:80]) + "\n")
    write("pair.de", "\n".join(" ".join(reversed(line)) for line in lines[:80]) + "\n")
    items = [
        {"sentence_good": a, "sentence_bad": b, "UID": "x"}
        for a, b in zip(joined[:8], joined[9:17], strict=False)
    ]
    write("pairs.jsonl", "".join(json.dumps(item) + "\n" for item in items))
    asked = [{"context": joined[i], "question": "What is it ?"} for i in range(6)]
    write("answers.jsonl", "".join(json.dumps(item) + "\n" for item in asked))
    chosen = [{"context": joined[i], "question": "", "options": NOUNS[:4]} for i in range(6)]
    write("questions.jsonl", "".join(json.dumps(item) + "\n" for item in chosen))


def answer(line: list[str]) -> dict[str, object]:
    """The object of a sentence as an answer of SQuAD."""
    return {"text": line[4], "answer_start": len(" ".join(line[:4])) + 1}


def conllu(line: list[str]) -> str:
    """A sentence in CoNLL-U."""
    kinds = ["DET", "NOUN", "VERB", "DET", "NOUN", "ADP", "DET", "NOUN"]
    rows = [
        f"{i}\t{w}\t_\t{k}\t_\t_\t0\t_\t_\t_\n"
        for i, (w, k) in enumerate(zip(line, kinds, strict=False), 1)
    ]
    return "".join(rows)


def spans(line: list[str]) -> str:
    """A sentence with the tags of two noun phrases."""
    tags = ["B-NP", "I-NP", "O", "B-NP", "I-NP", "O", "B-PP", "I-PP"]
    return "".join(f"{word} {tag}\n" for word, tag in zip(line, tags, strict=True))
