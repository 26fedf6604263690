"""Mutated JSON that functions read from files of other programs, of other runs and in headers."""

from __future__ import annotations

import json

import pytest
from safetensors.torch import save
from torch import ones

from tests.helpers.json_mutations import mutate
from toolkit.analysis.confusion import read_confusions
from toolkit.analysis.minimal_pairs import pool, read_pair_results
from toolkit.checkpoints.tensor_files import open_tensors
from toolkit.common.errors import ToolkitError
from toolkit.common.system import read_holder
from toolkit.conversion.fairseq import read_tokenizer
from toolkit.conversion.files import read_all_tensors
from toolkit.reporting.sinks import read_run_id
from toolkit.tasks.completions.items import read_sets

OFFSETS = {"w": {"saved_offsets": [0, 0]}}
HEADER = {
    "__metadata__": {"DCP_SHARDING_INFO": json.dumps(OFFSETS), "format": "pt"},
    "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
}
INDEX = {"metadata": {"total_size": 24}, "weight_map": {"w": "a.safetensors"}}
PAIR = {"sentence_good": "the cat sat", "sentence_bad": "the cat sit", "UID": "a", "field": "b"}


CONFUSION = {
    **{"event": "confusion", "checkpoint": "a", "subset": "valid"},
    **{"true": ["N", "V"], "predicted": ["N", "V"], "counts": [[2, 1], [0, 3]]},
}
PARADIGM = {"name": "a", "phenomenon": "b", "pairs": 2, "accuracy": 0.5, "standard_error": 0.1}
RESULT = {
    **{"task": "minimal_pairs", "path": "a", "scoring": "pll", "normalization": "tokens"},
    "paradigms": [PARADIGM],
}


def write_header(path, text):
    """Write a safetensors file with this header and a tensor of 24 bytes."""
    data = text.encode("utf-8", "surrogatepass")
    path.write_bytes(len(data).to_bytes(8, "little") + data + bytes(24))


def write_offsets(path, text):
    """Write a safetensors file with this text in its metadata."""
    write_header(path, json.dumps({**HEADER, "__metadata__": {"DCP_SHARDING_INFO": text}}))


def read_tensor(path):
    return {name: tensor[:].tolist() for name, tensor in open_tensors([path]).items()}


def read_byte_pairs(path):
    (path.parent / "vocab.bpe").write_text("#version: 0.2\na b\n")
    (path.parent / "dict.txt").write_text("0 1\n1 1\n2 1\n")
    return read_tokenizer(path.with_name("model.pt"), 8).vocabulary.symbols


def pool_results(path):
    return [pool(list(result.paradigms.values())) for result in read_pair_results(path)]


def read_index(path):
    (path.parent / "a.safetensors").write_bytes(save({"w": ones(2, 3)}))
    return {name: tensor.tolist() for name, tensor in read_all_tensors(path.parent)[0].items()}


def write_text(path, text):
    path.write_text(text, "utf-8", errors="surrogatepass")


READERS = {  # file -> its content, how it is written, how it is read
    ".lock.json": (
        {"host": "a", "pid": 7, "since": "today"},
        write_text,
        lambda path: read_holder(path.parent),
    ),
    "wandb.json": (
        {"project": "a", "run": "b"},
        write_text,
        lambda path: read_run_id(path.parent, "a"),
    ),
    "encoder.json": ({"a": 0, "b": 1, "ab": 2}, write_text, read_byte_pairs),
    "pairs.jsonl": (PAIR, write_text, lambda path: read_sets([str(path)], None)),
    "model.safetensors.index.json": (INDEX, write_text, read_index),
    "confusion.jsonl": (CONFUSION, write_text, lambda path: read_confusions(path)[0].checkpoint),
    "results.jsonl": (RESULT, write_text, pool_results),
    "header.safetensors": (HEADER, write_header, read_tensor),
    "offsets.safetensors": (OFFSETS, write_offsets, read_tensor),
}


@pytest.mark.parametrize("name", READERS)
def test_mutated_input_is_read_or_rejected(name, tmp_path):
    content, write, read = READERS[name]
    path = tmp_path / name
    write(path, json.dumps(content))
    read(path)
    for mutation in mutate(json.dumps(content), 60, seed=3):
        write(path, mutation.text)
        try:
            read(path)
        except ToolkitError as error:
            assert len(str(error).splitlines()) == 1, mutation.label
