"""Built-in components: registered name -> module and summary.

Torch-free, so that `--help` and `--list` are fast. A test compares it with the decorators.
"""

from __future__ import annotations

from typing import NamedTuple


class Builtin(NamedTuple):
    """Module and one-line summary of a built-in component, and the names listed with it, among
    which are its sizes.
    """

    module: str
    summary: str
    listed: tuple[str, ...] = ()


def make_builtins(module: str, **summaries: str) -> dict[str, Builtin]:
    """Components of a module, by name."""
    path, names = f"toolkit.{module}", tuple(summaries)
    return {name: Builtin(path, summary, names) for name, summary in summaries.items()}


ARCHITECTURES = {
    **make_builtins(
        "models.composite_bert",
        composite_bert="composite attention, base size (Chang et al. 2021)",
        composite_bert_small="composite attention, 12 layers of width 256",
        composite_bert_tiny="composite attention, a few layers for demonstrations",
    ),
    **make_builtins(
        "models.bert",
        bert="absolute positions, base size (Devlin et al. 2019)",
        bert_small="absolute positions, 12 layers of width 256",
        bert_tiny="absolute positions, a few layers for demonstrations",
        deberta="disentangled attention, base size of DeBERTa-v3 (He et al. 2021)",
        deberta_small="disentangled attention, 12 layers of width 256",
        deberta_tiny="disentangled attention, a few layers for demonstrations",
        modernbert="rotary positions and sliding windows, base size (Warner et al. 2024)",
        modernbert_tiny="ModernBERT, a few layers for demonstrations",
    ),
    **make_builtins(
        "models.convbert",
        convbert="attention mixed with span-based convolution, base size (Jiang et al. 2020)",
        convbert_medium_small="ConvBERT, 12 layers of width 384 in two groups",
        convbert_small="ConvBERT, 12 layers of width 256",
        convbert_small_chang="ConvBERT as reimplemented by Chang et al. 2021",
        convbert_tiny="ConvBERT, a few layers for demonstrations",
    ),
    **make_builtins(
        "models.ltg_bert",
        gpt_bert="GPT-BERT: LTG-BERT with gates and weighted sums of sublayers, base size",
        gpt_bert_small="GPT-BERT, 12 layers of width 384",
        gpt_bert_tiny="GPT-BERT, a few layers for demonstrations",
        ltg_bert="LTG-BERT: disentangled attention, GEGLU and more norms, base size",
        ltg_bert_small="LTG-BERT, 12 layers of width 384",
        ltg_bert_tiny="LTG-BERT, a few layers for demonstrations",
    ),
    **make_builtins(
        "models.taco",
        taco="attention convolution over words and positions, base size (TACO)",
        taco_small="TACO, 12 layers of width 216 + 40",
        taco_tiny="TACO, a few layers for demonstrations",
    ),
    **make_builtins(
        "models.conv_san",
        conv_san="convolved attention over words and characters (Dufter et al. 2020), PTB size",
        conv_san_ud="convolved attention, size for Universal Dependencies",
    ),
    **make_builtins(
        "models.transformer",
        transformer="encoder and decoder, base size (Vaswani et al. 2017)",
        transformer_big="Transformer, width 1024",
        transformer_iwslt="Transformer, size for small parallel corpora",
        transformer_tiny="Transformer, 4 + 4 layers of width 128",
    ),
    **make_builtins(
        "models.transformer",
        transformer_lm="decoder-only language model, 6 layers of width 512",
        transformer_lm_big="decoder-only language model, 12 layers of width 1024",
        transformer_lm_gpt="decoder-only language model, size of GPT (Radford et al. 2018)",
        transformer_lm_gpt2="decoder-only language model, smallest GPT-2 (Radford et al. 2019)",
        transformer_lm_tiny="decoder-only language model, 2 layers of width 128",
        lightconv="encoder and decoder with lightweight convolutions (Wu et al. 2019)",
        lightconv_big="LightConv, width 1024",
        lightconv_iwslt="LightConv, size for small parallel corpora",
        lightconv_tiny="LightConv, 4 + 4 layers of width 128",
        dynamicconv="encoder and decoder with dynamic convolutions (Wu et al. 2019)",
        dynamicconv_big="DynamicConv, width 1024",
        dynamicconv_iwslt="DynamicConv, size for small parallel corpora",
        dynamicconv_tiny="DynamicConv, 4 + 4 layers of width 128",
    ),
}

TASKS = {
    **make_builtins(
        "tasks.tagging.predictions",
        pos_tagging="part-of-speech tagging",
        span_tagging="named entities, chunks and other spans of words, from BIO tags",
    ),
    **make_builtins("tasks.glue", glue="classification or regression of a text or a pair (GLUE)"),
    **make_builtins("tasks.translation", translation="translation (Sutskever et al. 2014)"),
    **make_builtins(
        "tasks.language_modeling",
        language_modeling="causal language modeling: each token from those before it",
    ),
    **make_builtins(
        "tasks.squad.predictions", squad="extractive question answering (SQuAD 1.1, 2.0)"
    ),
    **make_builtins(
        "tasks.multiple_choice", multiple_choice="one of several options for a passage (RACE, SWAG)"
    ),
    **make_builtins("tasks.pretraining.mlm", mlm="masked language modeling (Devlin et al. 2019)"),
    **make_builtins("tasks.pretraining.denoising", denoising="denoising of corrupted texts (BART)"),
    **make_builtins(
        "tasks.pretraining.mpm", mpm="masked tokens and masked positions together (TACO)"
    ),
    **make_builtins(
        "tasks.embed",
        completions="evaluation only: which of several options is most probable (EWoK)",
        minimal_pairs="evaluation only: which of two sentences is more probable (BLiMP)",
        encode="an encoder without a head, to fine-tune from",
    ),
    **make_builtins(
        "tasks.pretraining.hybrid",
        hybrid="masked-next-token prediction and causal language modeling (GPT-BERT)",
    ),
    **make_builtins(
        "tasks.pretraining.rtd", rtd="replaced token detection (ELECTRA, Clark et al. 2020)"
    ),
}

CRITERIA = {
    **make_builtins(
        "criteria.distillation",
        distillation="cross-entropy and the divergence from the scores of teachers",
        r_drop="cross-entropy of two passes with other dropout, and their divergence (R-Drop)",
    ),
    **make_builtins(
        "criteria.cross_entropy", cross_entropy="cross-entropy, optionally with label smoothing"
    ),
}

OPTIMIZERS = {
    **make_builtins(
        "optim.adam",
        adamw="Adam with decoupled weight decay (Loshchilov & Hutter 2019)",
        adam="Adam (Kingma & Ba 2015)",
        sgd="stochastic gradient descent, optionally with momentum",
        rmsprop="gradient divided by its root mean square (Tieleman & Hinton 2012)",
    ),
    **make_builtins(
        "optim.muon",
        muon="orthogonal momentum for matrices, AdamW for the rest (Jordan et al. 2024)",
    ),
    **make_builtins(
        "optim.foreach",
        lamb="Adam for very large batches (You et al. 2020)",
        adafactor="memory-efficient Adam (Shazeer & Stern 2018)",
    ),
}

LR_SCHEDULERS = make_builtins(
    "optim.schedules",
    linear="warm-up, then linear decay to zero",
    polynomial="warm-up, then polynomial decay",
    cosine="warm-up, then half a cosine (Loshchilov & Hutter 2017)",
    inverse_sqrt="warm-up, then 1/sqrt(update) (Vaswani et al. 2017)",
    fixed="warm-up, then constant",
    wsd="warm-up, constant, decay at the end (Hu et al. 2024)",
    tri_stage="warm-up, constant, exponential decay (Park et al. 2019)",
    plateau="lowered when validation stops improving",
)

FORMATS = {
    **make_builtins(
        "data.formats.text", text="running text, one item per line, paragraph or sentence"
    ),
    **make_builtins(
        "data.formats.tagging.format",
        conllu="words with tags: CoNLL-U, as in Universal Dependencies",
        ptb="words with tags: Penn Treebank, .mrg files",
        columns="words with tags: a word and its tag per line",
    ),
    **make_builtins(
        "data.formats.classification.format",
        glue="labeled texts: GLUE's tables",
        tsv="labeled texts or pairs: your own tab-separated tables",
    ),
    **make_builtins(
        "data.formats.rows.kinds",
        rows="labeled rows: JSON lines, CSV, TSV, Parquet, Arrow, saved datasets",
        swag="multiple choice: SWAG's csv",
    ),
    **make_builtins(
        "data.formats.parallel",
        parallel="two languages line by line; implied by --source-lang and --target-lang",
    ),
    **make_builtins("data.formats.qa.squad", squad="questions: SQuAD's JSON, 1.1 or 2.0"),
    **make_builtins("data.formats.qa.multiple_choice", race="multiple choice: RACE's folders"),
}

POSITIONS = {  # in the order in which they are added
    **make_builtins(
        "nn.attention.absolute",
        none="no term: a bag of words, unless there are convolutions",
        learned="a table of positions, added to the token embeddings",
        sinusoidal="sines and cosines, added to the token embeddings",
    ),
    **make_builtins(
        "nn.attention.offset_terms", rope="queries and keys rotated by their positions"
    ),
    **make_builtins(
        "nn.attention.composite",
        fixed="a number per head and offset",
        shaw="a product of the query and a vector per offset (Shaw et al. 2018)",
        composite="fixed and shaw (Chang et al. 2021)",
    ),
    **make_builtins(
        "nn.attention.offset_terms",
        alibi="a constant slope per head (Press et al. 2022)",
        t5="a number per bucket of offsets (Raffel et al. 2020)",
        xl="products with projected sinusoids of the offset (Dai et al. 2019)",
    ),
    **make_builtins(
        "nn.attention.disentangled",
        deberta="content-to-position and position-to-content products (He et al. 2021)",
    ),
}
