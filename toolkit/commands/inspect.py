"""toolkit-inspect: descriptions of data folders, checkpoints and their runs.

Plugins of checkpoints need not be loaded.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from toolkit.analysis.flops import checkpoint_flops, print_flops
from toolkit.analysis.word_order import ORIGINAL, OrderLoss, SentenceSample, measure_word_order
from toolkit.checkpoints.load import (
    COMPARED,
    MODEL,
    RESUME_FILES,
    STATE,
    check_data_matches_checkpoint,
    find_start,
    weights_file,
)
from toolkit.checkpoints.save_folder import BEST, LAST, Manifest, read_manifest, verify_checkpoint
from toolkit.checkpoints.tensor_files import open_tensors, read_shapes
from toolkit.common import plugins
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import JsonObject
from toolkit.common.registry import TASKS
from toolkit.config.command import MANIFEST, format_columns
from toolkit.config.commands.checkpoints import InspectConfig
from toolkit.config.serialize import flatten
from toolkit.config.values import CONFIG, SavedConfig, locate_checkpoint, read_saved_config
from toolkit.data.formats.parallel import KIND as PARALLEL, ParallelSplit
from toolkit.data.formats.tagging.split import KIND as TAGGING, TaggedSplit
from toolkit.data.formats.text import encode_raw_texts
from toolkit.data.samples.sequence_pairs import TokenColumn
from toolkit.data.storage.column_files import WORDS, FolderSource
from toolkit.data.storage.data_folder import SHARD_SEPARATOR, SPLIT, Corpora, DataFolder
from toolkit.data.text_files import read_text
from toolkit.data.tokenizers.tokenizer import TARGET, Tokenizer
from toolkit.distributed.world import select_device
from toolkit.reporting.console import Output, Progress
from toolkit.reporting.runs import count_distinct, format_value, relevant_options, short_names
from toolkit.reporting.tables import Cell, Table
from toolkit.tasks.build import load_checkpoint
from toolkit.tasks.learner import Learner
from toolkit.tasks.task import ScoresTargets, wrong_training_error
from toolkit.training.callbacks.checkpointing import read_state


def inspect(c: InspectConfig) -> None:
    """Print facts about each path, or what checkpoints lose without the order of words."""
    with Output(c.json) as output:
        if c.word_order:
            show_word_order(c, output)
        if c.word_order and not (c.verify or c.examples or c.flops):
            return
        found = {path: locate_checkpoint(Path(path), LAST) for path in c.paths}
        checkpoints = {path: folder for path, folder in found.items() if folder}
        for index, path in enumerate(c.paths):
            paragraphs = describe_path(path, checkpoints.get(path), c, output)
            print("\n" * (index > 0) + "\n\n".join(paragraphs), file=output.text_stream)
            if c.flops:
                if path not in checkpoints:
                    raise ToolkitError(
                        f"toolkit-inspect --flops needs a checkpoint, but {path} is none. With "
                        f"--arch NAME, a data folder gives the vocabulary size."
                    )
                print(file=output.text_stream)
                print_flops(checkpoint_flops(checkpoints[path]), output)
        if len(checkpoints) > 1:
            show_differences(checkpoints, output)


def describe_path(
    path: str, checkpoint: Path | None, c: InspectConfig, output: Output
) -> list[str]:
    """Paragraphs about a checkpoint, else about a data folder; write their records."""
    items: dict[str, str] = {}
    if checkpoint:
        event, (facts, *records) = "checkpoint", describe_checkpoint(checkpoint, verify=c.verify)
    else:
        facts, records, items = describe_data(path, verify=c.verify, examples=c.examples)
        event = "column"
    for record in records:
        output.write(event, {**record, "verified": c.verify})
    lines = {name: text for name, it in facts.items() if (text := to_text(it))}
    tables = ["" if checkpoint else format_table(records), format_columns(items.items())]
    return [f"{path}\n{format_columns(lines.items())}", *filter(None, tables)]


def show_differences(checkpoints: Mapping[str, Path], output: Output) -> None:
    """Print what differs between the runs in options, code and machine.

    Left out are names of folders, options of logging, and those that only some of the runs have.
    """
    runs = []
    for folder in checkpoints.values():
        start = find_start(folder, read_manifest(folder).update) or {}
        facts = flatten({key: start.get(key, "") for key in COMPARED})
        runs.append(relevant_options(read_saved_config(folder).run) | facts)
    shared = [name for name in runs[0] if all(name in run for run in runs)]
    rows = []
    for name in [it for it in shared if count_distinct(runs, it) > 1]:
        values = [run[name] for run in runs]
        output.write("difference", {"name": name, "values": values})
        rows.append([name, *map(format_value, values)])
    table = Table(columns=["differs in", *short_names([*checkpoints])], rows=rows)
    text = table.text() if rows else "The options of these runs do not differ.\n"
    print(f"\n{text}", end="", file=output.text_stream)


def describe_checkpoint(folder: Path, *, verify: bool = False) -> tuple[JsonObject, JsonObject]:
    """Facts to print and the JSON record; `verify` checks all digests, not only of small files."""
    listed = read_manifest(folder)
    small = [name for name in (CONFIG, STATE) if name in listed.files]
    verify_checkpoint(folder, only=None if verify else small, optional=RESUME_FILES)
    config, state, tokenizer = read_saved_config(folder), read_state(folder), Tokenizer.load(folder)
    shapes = read_shapes(folder / MODEL) if (folder / MODEL).exists() else {}
    sizes = [math.prod(shape) for shape, _ in shapes.values()]
    run, start = config.run, find_start(folder, listed.update)
    record = {
        "checkpoint": str(folder),
        "architecture": run["arch"]["name"],
        "task": run["task"]["name"],
        "seed": run.get("training", {}).get("seed"),
        "update": listed.update,
        "epoch": listed.epoch,
        "reasons": listed.reasons,
        "best": state.validation["best"] if state and state.validation else None,
        "parameters": sum(sizes) if shapes else None,
        "tensors": len(shapes) if shapes else None,
        "precision": state.precision if state else None,
        "symbols": config.sizes["tokens"],
        "start": start,
    }
    facts = {
        **record,
        **describe_files(folder, listed),
        "architecture": run["arch"],
        **{section: run[section] for section in ("task", "optimizer", "lr_scheduler")},
        "plugins": describe_plugins(config),
        "types": [*dict.fromkeys(kind for _, kind in shapes.values())],
        "layer mixing": describe_layer_mixing(folder, run["task"]),
        "ranks": state.ranks if state else None,
        "data": run.get("data", {}).get("dirs"),
        "fingerprint of examples": state.data["examples"][:16] if state else "",
        "sizes": config.sizes,
        "tokenizer": tokenizer.settings(),
        "vocabulary": f"fingerprint {tokenizer.vocabulary.fingerprint[:16]}",
        "digests": "all right" if verify else "not compared (--verify does)",
        "start": None,
        **{f"start: {name}": value for name, value in (start or {}).items()},
    }
    return facts, record


def describe_files(folder: Path, listed: Manifest) -> JsonObject:
    """What the manifest says, the files, and the links that lead to the checkpoint."""
    links = [folder.resolve().parent / name for name in (LAST, BEST)]
    found = [it.relative_to(folder).as_posix() for it in folder.rglob("*") if it.is_file()]
    return {
        "checkpoint": folder.resolve().name,
        "links": [link.name for link in links if link.exists() and link.samefile(folder)],
        "averaged": listed.averaged,
        "metadata": json.dumps(listed.metadata) if listed.metadata else "",
        "converted from": listed.converted,
        "versions": listed.versions,
        "files": [*listed.files, MANIFEST],
        "missing": [name for name in listed.files if not (folder / name).exists()],
        "not listed, nor read": sorted({*found} - {*listed.files, MANIFEST}),
    }


def describe_plugins(config: SavedConfig) -> list[str]:
    """The plugins that a checkpoint requires, and what to do if they are not loaded."""
    needed = [plugin["name"] for plugin in config.plugins]
    try:
        plugins.check_loaded(config.plugins, "the checkpoint")
    except ToolkitError:
        needed.append("not loaded: pass their folders with --user-dir")
    return needed


def describe_layer_mixing(folder: Path, task: JsonObject) -> str:
    """The learned share of each layer; empty for a model that reads its last layer only."""
    if not task.get("layer_mixing"):
        return ""
    tensors = open_tensors([folder / weights_file(folder)])
    shares = tensors["task.features.weights"][...].softmax(0).tolist()
    names = ["embeddings", *(f"layer {number}" for number in range(1, len(shares)))]
    layers = ", ".join(f"{name} {share:.1%}" for name, share in zip(names, shares, strict=True))
    return f"{layers}; scale {float(tensors['task.features.scale'][...]):.3g}"


VALID = "valid"
"""Split of a data folder that is read."""


def show_word_order(config: InspectConfig, output: Output) -> None:
    """Measure each checkpoint; print a table for each, and one that compares them."""
    results = {path: measure_checkpoint(path, config, output) for path in config.paths}
    if len(results) > 1:
        heads = ["loss", *(order_name(it.window) for it in next(iter(results.values()))[1:])]
        Table(
            columns=("checkpoint", *heads),
            rows=[
                [name, losses[0].loss, *(it.increase for it in losses[1:])]
                for name, losses in zip(short_names([*results]), results.values(), strict=True)
            ],
            shared_precision=heads,
            caption="loss in the original order, and its increase in shuffled windows",
        ).print(output.console)


def measure_checkpoint(path: str, config: InspectConfig, output: Output) -> list[OrderLoss]:
    """The losses of one checkpoint, which are printed and written."""
    assert config.word_order is not None, "the option chooses this mode"
    learner = load_checkpoint(locate_checkpoint(Path(path), LAST) or path)
    if not isinstance(learner.task, ScoresTargets):
        task, options = TASKS.find_name(type(learner.task)), "--task mlm, mpm or language_modeling"
        raise wrong_training_error("--word-order", options, task, path)
    learner = learner.to(select_device(config.device))
    folder, split = open_sentences(config.word_order, learner, path)
    column = TokenColumn(folder.split(split).column("tokens"))
    resolved = learner.task.resolve_for(learner.require_origin().task.config, learner.encoder)
    length = min(resolved.tokens_per_sample, learner.encoder.max_positions or sys.maxsize)
    sample = SentenceSample(learner, column, limit=config.limit, length=length)
    with Progress(f"word order of {path}", len(sample.ids), "sentences") as progress:
        losses = measure_word_order(
            learner, sample, shuffles=config.shuffles, on_sentences=progress.advance
        )
    rows = list[list[Cell]]()
    for it in losses:
        is_original, ratio = it.window == ORIGINAL, it.perplexity_ratio
        shuffles = 1 if is_original else config.shuffles
        source = {"checkpoint": path, "text": config.word_order, "shuffles": shuffles}
        output.write("word_order", {**source, **vars(it), "perplexity_ratio": ratio})
        compared = [None] * 3 if is_original else [it.increase, it.standard_error, ratio]
        rows.append([order_name(it.window), it.loss, *compared, it.accuracy])
    cut = f", {sample.truncated:,} of them cut" if sample.truncated else ""
    Table(
        columns=("order", "loss", "increase", "standard error", "perplexity ratio", "accuracy"),
        rows=rows,
        shared_precision=("loss", "increase", "standard error"),
        caption=f"{path}: {losses[0].targets:,} tokens of {len(sample.ids):,} sentences{cut}",
    ).print(output.console)
    return losses


def open_sentences(text: str, learner: Learner, path: str) -> tuple[DataFolder, str]:
    """The sentences of a text file or of a data folder, and the name of their split."""
    parts = [Path(part) for part in text.split(SHARD_SEPARATOR)]
    if not parts[0].is_dir():
        if not (lines := [line for line in read_text(Path(text)).split("\n") if line.strip()]):
            raise ToolkitError(f"--word-order {text} must have a sentence per line, but is blank.")
        return encode_raw_texts(learner.tokenizer, lines, None), SPLIT
    corpora = Corpora.open(text)
    check_data_matches_checkpoint(corpora.all.tokenizer, text, learner.tokenizer, path)
    return corpora.with_split(VALID), VALID


def order_name(window: int | None) -> str:
    """Name of an order in tables."""
    if window == ORIGINAL:
        return "original"
    return "whole sentence" if window is None else f"windows of {window}"


TEXT = "tokens"


def describe_data(
    argument: str, *, verify: bool = False, examples: int = 0
) -> tuple[dict[str, object], list[JsonObject], dict[str, str]]:
    """Facts about a folder, or shards a:b:c, a record for each column, split and item -> text."""
    corpora = Corpora.open(argument)
    sources = [source for shards in corpora.corpora for source in shards]
    facts = collect_facts(corpora, sources)
    if verify:
        total = 0
        for source in sources:
            for split in source.splits:
                for part in chain.from_iterable(source.parts(split).values()):
                    part.check_all()
                    total += sum(file.stat().st_size for file in part.files)
        complete = all(source.checksums for source in sources)
        result = "all checksums match" if complete else "all offsets and ids are valid"
        facts["verified"] = f"{total:,} bytes read, {result}"
    records, items = list[JsonObject](), dict[str, str]()
    for source in sources:
        for split in source.splits:
            name = f"{source.path}/{split}" if len(sources) > 1 else split
            records += split_records(source, split, name)
            items |= {f"{name} {n}": text for n, text in example_items(source, split, examples)}
    return facts, records, items


def collect_facts(corpora: Corpora, sources: Sequence[FolderSource]) -> dict[str, object]:
    """Name -> value of the facts above the table."""
    folders = [folder for s in sources for folder in (s.path, s.path / TARGET) if folder.is_dir()]
    files = [file for folder in folders for file in folder.iterdir() if file.is_file()]
    own, target = (
        f"{len(words):,} symbols, fingerprint {words.fingerprint[:16]}"
        for words in (corpora.all.tokenizer.vocabulary, corpora.all.tokenizer.target.vocabulary)
    )
    return {
        "kind": sources[0].kind,
        "shards": len(sources) if len(sources) > 1 else None,
        **sources[0].facts,
        "size": f"{format_bytes(sum(file.stat().st_size for file in files))} in {len(files)} files",
        "tokenizer": corpora.all.tokenizer.settings(),
        "vocabulary": own if own == target else f"{own}; target {target}",
        "fingerprint": corpora.all.fingerprint,
    }


def to_text(value: object) -> str:
    """A value of a record in words, as `width 64, lowercase`; empty for what is not there.

    Ids of special tokens are left out.
    """
    if isinstance(value, Mapping):
        parts = {str(name): it for name, it in value.items() if name != "special"}
        texts = [name if it is True else f"{name} {to_text(it)}" for name, it in parts.items()]
        return ", ".join(it for it in texts if not it.endswith((" ", " False")))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(to_text, value))
    return "" if value is None else str(value)


def split_records(source: FolderSource, split: str, name: str) -> Iterator[JsonObject]:
    """A record for each column of a split: counts, lengths and unknown tokens."""
    folder = DataFolder([source])
    for column in folder.split(split).columns.values():
        if column.name == WORDS:
            continue
        is_text = column.name == TEXT
        counts = source.counts(split) if is_text else {}
        sizes = np.quantile(column.lengths, (0.5, 0.9, 1.0), method="inverted_cdf").tolist()
        unknown = counts["unknown"] / column.elements if "unknown" in counts else None
        yield {
            "name": name if is_text else f"{name}.{column.name}",
            "path": str(source.path),
            "split": split,
            "column": column.name,
            "documents": sum(part.documents for part in column.parts),
            "items": column.items,
            "tokens": column.elements,
            "words": counts.get(WORDS, 0),
            "mean": column.elements / max(1, column.items),
            **dict(zip(("median", "ninety_percent", "longest"), sizes, strict=True)),
            "unknown_rate": unknown,
            "overlength": counts.get("overlength", 0),
            "lost_tokens": counts.get("lost_tokens", 0),
            "parts": len(column.parts),
            "bytes": sum(file.stat().st_size for part in column.parts for file in part.files),
        }


def format_table(records: Sequence[JsonObject]) -> str:
    """A row for each record, without the columns that are empty."""
    hidden = ("path", "split", "column")
    heads = [name for name in records[0] if name not in hidden and any(it[name] for it in records)]
    rows = [[it[name] for name in heads] for it in records]
    return Table(columns=heads, rows=rows).text().rstrip()


def example_items(source: FolderSource, split: str, count: int) -> Iterator[tuple[int, str]]:
    """Evenly spaced items of a split with their numbers, as text.

    Tagged sentences are word/TAG; tags unknown in training are omitted.
    """
    folder = DataFolder([source])
    if folder.kind == TAGGING:
        tagged = TaggedSplit(folder, split)
        ends, tags = np.cumsum(tagged.lengths), [*tagged.tables.tags, ""]
        for number in spread_indices(len(ends), count):
            positions = range(ends[number] - tagged.lengths[number], ends[number])
            words = (f"{tagged.words[tagged.types[p]]}/{tags[tagged.tags[p]]}" for p in positions)
            yield number, " ".join(words)
    elif folder.kind == PARALLEL:
        pairs = ParallelSplit(folder, split)
        for number in spread_indices(len(pairs), count):
            ids = np.array([number])
            text = pairs.tokenizer.decode(
                pairs.source.take(ids, pairs.source.lengths[ids]).ids.tolist()
            )
            yield number, f"{text} -> {pairs.references(ids)[0]}"
    elif column := folder.split(split).columns.get(TEXT):
        for number in spread_indices(column.items, count):
            start = int(column.item_starts[number])
            ids = column.read(start, start + int(column.lengths[number]))
            yield number, folder.tokenizer.decode(ids.tolist())


def spread_indices(total: int, count: int) -> list[int]:
    """At most `count` evenly spaced indices below `total`."""
    indices: list[int] = np.unique(np.linspace(0, total - 1, count, dtype=np.int64)).tolist()
    return indices if total else []


def format_bytes(count: int) -> str:
    """Bytes, kB, MB or GB with three digits."""
    power = min((len(str(count)) - 1) // 3, 4)
    unit = ("bytes", "kB", "MB", "GB", "TB")[power]
    return f"{count / 1000**power:.3g} {unit}" if power else f"{count} bytes"
