"""Training runs whose updates are simulated: a few for every run of the tests, and a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.gpu.batches import Shape
from tests.gpu.steps import FULL, Case

ENCODERS = ("bert_tiny", "composite_bert_tiny", "convbert_tiny", "taco_tiny")
ONE_LAYER = {"layers": 1}
POSITIONS = {
    "bert_tiny": {"hidden_position_embedding": True},
    "composite_bert_tiny": {"absolute_positions": True, "hidden_position_embedding": True},
    "taco_tiny": {},
}
"""Architectures that masked position modeling can train, and the options it requires."""
COMPOSITE: list[dict[str, Any]] = [
    {"key_dynamic": True},
    {"depthwise": True},
    {"convolve": ["query", "key", "value"]},
    {"radius": 31},
    {"fixed": False, "dynamic": False},
]
CONVBERT: list[dict[str, Any]] = [
    {"conv_type": "dynamic"},
    {"conv_type": "conventional"},
    {"conv_type": "none"},
    {"share_value": True},
    {"renormalize_at_boundaries": True, "kernel_dropout": 0.1},
    {"groups": 2},
    {"convolve_padding": True},
    {"kernel_size": 5, "depthwise_bias": True},
]
CONV_SAN: list[dict[str, Any]] = [
    {},
    {"positions": "concat", "word_width": 128},
    {"relative_table": True, "relative_spectral": True},
    {"position_table": True, "relative_table": True},
    {"temperature": True},
]
SHORT = {"encoder_layers": 1, "decoder_layers": 1}
THIN = {"encoder_kernels": [3], "decoder_kernels": [5]}
WORDS = Shape(4, 60, padding=True)
CLASSIFIERS = ("glue", "squad", "multiple_choice")
OPTIMIZERS = ("adam", "muon", "lamb", "adafactor", "sgd", "rmsprop")
PADDED = Shape(4, 24, padding=True)
PIECES = Shape(4, 24, padding=True, pieces=True)


def quick_cases() -> Iterator[Case]:
    """Each part of the toolkit once or twice, in the precision that GPUs train in."""
    for arch in ENCODERS:
        yield Case(arch=arch, task="mlm")
        yield Case(arch=arch, task="rtd", shape=PADDED, options=ONE_LAYER)
    for arch, options in POSITIONS.items():
        yield Case(arch=arch, task="mpm", options={**ONE_LAYER, **options}, shape=PADDED)
    for options in ({"convolution": "1d"}, {"relative_table": True}):
        options = {**ONE_LAYER, **options}
        yield Case(arch="conv_san", task="pos_tagging", options=options, shape=WORDS)
    yield Case(arch="bert_tiny", task="pos_tagging", shape=PIECES, options=ONE_LAYER)
    yield Case(arch="transformer_tiny", task="translation", options=SHORT, shape=PADDED)
    yield Case(arch="dynamicconv_tiny", task="translation", options=THIN, shape=PADDED)
    yield Case(arch="transformer_lm_tiny", task="language_modeling", options=ONE_LAYER)
    for task in CLASSIFIERS:
        yield Case(arch="bert_tiny", task=task, shape=PADDED, options=ONE_LAYER)
    for optimizer in OPTIMIZERS:
        yield Case(arch="bert_tiny", task="mlm", optimizer=optimizer, options=ONE_LAYER)
    composite = {"arch": "composite_bert_tiny", "task": "mlm", "options": ONE_LAYER}
    large = {"shape": Shape(64, 128), "vocabulary": 30004}  # a loss in chunks
    yield Case(**composite, **large)
    yield Case(arch="bert_tiny", task="rtd", options=ONE_LAYER, **large)
    yield Case(**composite, precision="fp16", spikes=True)
    yield Case(**composite, precision="fp32", shape=PADDED)


def sweep_cases() -> Iterator[Case]:
    """Architecture x task x option: those of encoders with padding, in bf16."""
    yield from sweep_encoders("bf16", PADDED)
    yield from sweep_generators("bf16", FULL)
    for options in CONV_SAN:
        yield Case(arch="conv_san", task="pos_tagging", options=options, shape=WORDS)
    for arch in ENCODERS:
        yield Case(arch=arch, task="mlm", precision="fp16", shape=PADDED)
    yield Case(arch="conv_san_ud", task="pos_tagging", precision="fp16", shape=WORDS)
    for optimizer in ("muon", "adafactor"):
        yield Case(arch="composite_bert_tiny", task="mlm", precision="fp16", optimizer=optimizer)


def sweep_encoders(precision: str, shape: Shape) -> Iterator[Case]:
    for arch in ENCODERS:
        for task in ("mlm", "rtd"):
            yield Case(arch=arch, task=task, precision=precision, shape=shape)
    for arch, options in POSITIONS.items():
        yield Case(arch=arch, task="mpm", precision=precision, shape=shape, options=options)
    summed = {"attention_convolution": False}
    for task in ("mlm", "mpm"):
        yield Case(arch="taco_tiny", task=task, precision=precision, shape=shape, options=summed)
    for arch, choices in (("composite_bert_tiny", COMPOSITE), ("convbert_tiny", CONVBERT)):
        for options in choices:
            yield Case(arch=arch, task="mlm", precision=precision, shape=shape, options=options)


def sweep_generators(precision: str, shape: Shape) -> Iterator[Case]:
    small = {"transformer_tiny": SHORT, "lightconv_tiny": THIN, "dynamicconv_tiny": THIN}
    for arch, options in small.items():
        yield Case(arch=arch, task="translation", precision=precision, shape=shape, options=options)
    for term in ("t5", "shaw", "composite"):
        options = {"positions": f"sinusoidal,{term}"}
        yield Case(
            arch="transformer_tiny",
            task="translation",
            precision=precision,
            shape=shape,
            options={**SHORT, **options},
        )
        if not shape.padding:
            yield Case(
                arch="transformer_lm_tiny",
                task="language_modeling",
                precision=precision,
                options=options,
            )


QUICK = list(quick_cases())
SWEEP = [case for case in sweep_cases() if case not in QUICK]
