"""Built-in components: registered name -> module and summary.

Torch-free, so that `--help` and `--list` are fast. A test compares it with the decorators.
"""

from __future__ import annotations

from typing import NamedTuple


class Builtin(NamedTuple):
    module: str
    summary: str


ARCHITECTURES: dict[str, Builtin] = {
    "composite_bert": Builtin(
        "toolkit.models.composite_bert", "composite attention, base size (Chang et al. 2021)"
    ),
    "composite_bert_small": Builtin(
        "toolkit.models.composite_bert", "composite attention, 12 layers of width 256"
    ),
    "composite_bert_tiny": Builtin(
        "toolkit.models.composite_bert", "composite attention, a few layers for demonstrations"
    ),
    "bert": Builtin("toolkit.models.bert", "absolute positions, base size (Devlin et al. 2019)"),
    "bert_small": Builtin("toolkit.models.bert", "absolute positions, 12 layers of width 256"),
    "bert_tiny": Builtin("toolkit.models.bert", "absolute positions, a few layers"),
    "convbert": Builtin(
        "toolkit.models.convbert",
        "attention mixed with span-based convolution, base size (Jiang et al. 2020)",
    ),
    "convbert_medium_small": Builtin(
        "toolkit.models.convbert", "the same, 12 layers of width 384 in two groups"
    ),
    "convbert_small": Builtin("toolkit.models.convbert", "the same, 12 layers of width 256"),
    "convbert_small_chang": Builtin(
        "toolkit.models.convbert", "the same as Chang et al. 2021 rebuilt it"
    ),
    "convbert_tiny": Builtin(
        "toolkit.models.convbert", "the same, a few layers for demonstrations"
    ),
    "taco": Builtin(
        "toolkit.models.taco", "attention convolution over words and positions, base size (TACO)"
    ),
    "taco_small": Builtin("toolkit.models.taco", "the same, 12 layers of width 216 + 40"),
    "taco_tiny": Builtin("toolkit.models.taco", "the same, a few layers for demonstrations"),
    "conv_san": Builtin(
        "toolkit.models.conv_san",
        "convolved attention over words and characters (Dufter et al. 2020), PTB size",
    ),
    "conv_san_ud": Builtin("toolkit.models.conv_san", "the same, size for Universal Dependencies"),
    "transformer": Builtin(
        "toolkit.models.transformer", "encoder and decoder, base size (Vaswani et al. 2017)"
    ),
    "transformer_big": Builtin("toolkit.models.transformer", "the same, width 1024"),
    "transformer_iwslt": Builtin(
        "toolkit.models.transformer", "the same, size for small parallel corpora"
    ),
    "transformer_tiny": Builtin(
        "toolkit.models.transformer", "the same, 4 + 4 layers of width 128"
    ),
    "transformer_lm": Builtin(
        "toolkit.models.transformer_lm",
        "the decoder alone as a language model, 6 layers of width 512",
    ),
    "transformer_lm_big": Builtin(
        "toolkit.models.transformer_lm", "the same, 12 layers of width 1024"
    ),
    "transformer_lm_gpt": Builtin(
        "toolkit.models.transformer_lm", "the same, the shape of GPT (Radford et al. 2018)"
    ),
    "transformer_lm_gpt2": Builtin(
        "toolkit.models.transformer_lm",
        "the same, the shape of the smallest GPT-2 (Radford et al. 2019)",
    ),
    "transformer_lm_tiny": Builtin(
        "toolkit.models.transformer_lm", "the same, 2 layers of width 128"
    ),
    "lightconv": Builtin(
        "toolkit.models.lightconv",
        "encoder and decoder with lightweight convolutions (Wu et al. 2019)",
    ),
    "lightconv_big": Builtin("toolkit.models.lightconv", "the same, width 1024"),
    "lightconv_iwslt": Builtin(
        "toolkit.models.lightconv", "the same, size for small parallel corpora"
    ),
    "lightconv_tiny": Builtin("toolkit.models.lightconv", "the same, 4 + 4 layers of width 128"),
    "dynamicconv": Builtin(
        "toolkit.models.lightconv", "encoder and decoder with dynamic convolutions (Wu et al. 2019)"
    ),
    "dynamicconv_big": Builtin("toolkit.models.lightconv", "the same, width 1024"),
    "dynamicconv_iwslt": Builtin(
        "toolkit.models.lightconv", "the same, size for small parallel corpora"
    ),
    "dynamicconv_tiny": Builtin("toolkit.models.lightconv", "the same, 4 + 4 layers of width 128"),
}

TASKS: dict[str, Builtin] = {
    "pos_tagging": Builtin("toolkit.tasks.tagging.task", "a part of speech for every word"),
    "glue": Builtin("toolkit.tasks.glue.task", "a class or a number for a text or a pair (GLUE)"),
    "translation": Builtin(
        "toolkit.tasks.translation.task", "a sentence from another (Sutskever et al. 2014)"
    ),
    "language_modeling": Builtin(
        "toolkit.tasks.language_modeling.task", "each symbol of a text from those before it"
    ),
    "squad": Builtin(
        "toolkit.tasks.squad.task", "a part of a passage for a question (SQuAD 1.1, 2.0)"
    ),
    "multiple_choice": Builtin(
        "toolkit.tasks.multiple_choice.task", "one of several options for a passage (RACE, SWAG)"
    ),
    "mlm": Builtin(
        "toolkit.tasks.pretraining.mlm", "masked language modeling (Devlin et al. 2019)"
    ),
    "mpm": Builtin(
        "toolkit.tasks.pretraining.mpm", "masked tokens and masked positions together (TACO)"
    ),
    "encode": Builtin("toolkit.tasks.headless", "an encoder without a head, to fine-tune from"),
    "rtd": Builtin(
        "toolkit.tasks.pretraining.rtd", "replaced token detection (ELECTRA, Clark et al. 2020)"
    ),
}

CRITERIA: dict[str, Builtin] = {
    "cross_entropy": Builtin(
        "toolkit.criteria.cross_entropy", "cross-entropy, optionally with label smoothing"
    ),
    "mean_squared_error": Builtin("toolkit.criteria.regression", "squared error of numbers"),
}

OPTIMIZERS: dict[str, Builtin] = {
    "adamw": Builtin("toolkit.optim.adam", "Adam with decoupled decay (Loshchilov & Hutter 2019)"),
    "adam": Builtin("toolkit.optim.adam", "Adam (Kingma & Ba 2015)"),
    "muon": Builtin(
        "toolkit.optim.muon",
        "orthogonal momentum for matrices, AdamW for the rest (Jordan et al. 2024)",
    ),
    "lamb": Builtin("toolkit.optim.lamb", "Adam for very large batches (You et al. 2020)"),
    "adafactor": Builtin("toolkit.optim.adafactor", "Adam in little memory (Shazeer & Stern 2018)"),
    "sgd": Builtin("toolkit.optim.sgd", "along the gradient, with or without momentum"),
    "rmsprop": Builtin(
        "toolkit.optim.sgd", "by the root mean square gradient (Tieleman & Hinton 2012)"
    ),
}

LR_SCHEDULERS: dict[str, Builtin] = {
    "linear": Builtin("toolkit.optim.schedules", "warm-up, then linear decay to zero"),
    "polynomial": Builtin("toolkit.optim.schedules", "warm-up, then polynomial decay"),
    "cosine": Builtin(
        "toolkit.optim.schedules", "warm-up, then half a cosine (Loshchilov & Hutter 2017)"
    ),
    "inverse_sqrt": Builtin(
        "toolkit.optim.schedules", "warm-up, then 1/sqrt(update) (Vaswani et al. 2017)"
    ),
    "fixed": Builtin("toolkit.optim.schedules", "warm-up, then the peak for good"),
    "wsd": Builtin(
        "toolkit.optim.schedules", "warm-up, the peak, decay at the end (Hu et al. 2024)"
    ),
    "tri_stage": Builtin(
        "toolkit.optim.schedules", "warm-up, hold, exponential decay (Park et al. 2019)"
    ),
    "plateau": Builtin("toolkit.optim.plateau", "lowered whenever validation stops improving"),
}

FORMATS: dict[str, Builtin] = {
    "text": Builtin(
        "toolkit.data.formats.text.format",
        "running text, one item per line, paragraph or sentence",
    ),
    "conllu": Builtin(
        "toolkit.data.formats.tagging.format",
        "words with tags: CoNLL-U, as in Universal Dependencies",
    ),
    "ptb": Builtin(
        "toolkit.data.formats.tagging.format", "words with tags: Penn Treebank, .mrg and .pos files"
    ),
    "columns": Builtin(
        "toolkit.data.formats.tagging.format", "words with tags: a word and its tag per line"
    ),
    "glue": Builtin("toolkit.data.formats.classification.format", "labeled texts: GLUE's tables"),
    "tsv": Builtin(
        "toolkit.data.formats.classification.format",
        "labeled texts or pairs: your own tab-separated tables",
    ),
    "parallel": Builtin(
        "toolkit.data.formats.parallel.format",
        "two languages line by line; implied by --source-lang and --target-lang",
    ),
    "squad": Builtin("toolkit.data.formats.qa.format", "questions: SQuAD's JSON, 1.1 or 2.0"),
    "race": Builtin("toolkit.data.formats.qa.format", "multiple choice: RACE's folders"),
    "swag": Builtin(
        "toolkit.data.formats.qa.format", "multiple choice: SWAG's csv and CODAH's tsv"
    ),
}
