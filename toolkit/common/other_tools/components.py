"""Components of Hugging Face Transformers and fairseq."""

from __future__ import annotations

COMPONENTS = {
    "constant": "fixed",
    "constant_with_warmup": "fixed",
    "warmup_stable_decay": "wsd",
    "reduce_lr_on_plateau": "plateau",
    "polynomial_decay": "polynomial",
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw",
    "adamw_hf": "adamw",
    "label_smoothed_cross_entropy": "cross_entropy",
    "masked_lm": "mlm",
    "sentence_prediction": "glue",
    "sequence_classification": "glue",
    "text_classification": "glue",
    "token_classification": "pos_tagging",
    "ner": "span_tagging",
    "chunking": "span_tagging",
    "question_answering": "squad",
    "causal_lm": "language_modeling",
    "translation_from_pretrained_bart": "translation",
    "roberta_base": "bert",
    "bert_base": "bert",
    "bert_base_uncased": "bert",
    "transformer_iwslt_de_en": "transformer_iwslt",
    "transformer_wmt_en_de": "transformer",
    "transformer_wmt_en_de_big": "transformer_big",
    "transformer_vaswani_wmt_en_de_big": "transformer_big",
    "lightconv_iwslt_de_en": "lightconv_iwslt",
    "lightconv_wmt_en_de": "lightconv",
    "lightconv_wmt_en_de_big": "lightconv_big",
}
"""Name of an architecture, task, criterion, optimizer or scheduler there -> its name here."""
