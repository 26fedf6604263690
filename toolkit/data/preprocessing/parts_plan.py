"""What all processes with --part must agree on: their number, options, input and tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, TypedDict

from msgspec import Meta

from toolkit.common.digest import sample_digest, sha256_file
from toolkit.common.errors import ToolkitError
from toolkit.common.json_files import (
    JsonObject,
    PositiveCount,
    check_digest,
    convert,
    digest_json,
    read_json,
    write_signed_json,
)
from toolkit.config.commands.preprocess import PREPROCESS, TOKENIZER_BY_OPTION, PreprocessConfig
from toolkit.config.load import compose_config
from toolkit.config.options import to_flag
from toolkit.config.serialize import describe_differences, diff_configs, flatten
from toolkit.data.tokenizers.tokenizer import Tokenizer

LOCAL_OPTIONS = (
    *("destdir", "overwrite", "workers", "json", "part", "close"),
    *("max_line_bytes", "tokenizer_timeout_seconds"),
)
"""Options that do not change the data."""
FILE_OPTIONS = ("trainpref", "validpref", "testpref", *TOKENIZER_BY_OPTION)
"""Options whose files are compared, because each process may have them at another path."""


class FormatSection(TypedDict):
    """The format of the input, with its options."""

    name: str


class PlanOptions(TypedDict):
    """Options that every plan has."""

    format: FormatSection


@dataclass(frozen=True)
class PartsPlan:
    """The plan of several processes that write the parts of one data folder."""

    processes: PositiveCount
    options: JsonObject
    """The options of the first process, except local ones."""
    inputs: Mapping[str, list[list[str]]]
    """Split -> name and digest of each file."""
    parts: Mapping[str, Annotated[int, Meta(ge=0, le=1 << 20)]]
    """Split -> number of its parts."""
    tokenizer: Mapping[str, str] = field(default_factory=dict)
    """File of the tokenizer -> its SHA-256; empty before one is chosen."""

    def __post_init__(self) -> None:
        convert(self.options, PlanOptions)

    @property
    def compared_options(self) -> JsonObject:
        given = {name: "given" if self.options.get(name) else None for name in FILE_OPTIONS}
        return {**self.options, **given}

    @property
    def tokenizer_source(self) -> str:
        """The flag that names a tokenizer, or that the text trains one."""
        given = [to_flag(name) for name in TOKENIZER_BY_OPTION if self.options.get(name)]
        return ", ".join(given) or "a tokenizer trained on the text"

    @property
    def identity(self) -> dict[str, str]:
        """Digests of what all parts of a data folder share."""
        values = {
            "tokenizer": self.tokenizer,
            "set of options": self.compared_options,
            "input": self.inputs,
            "number of processes": self.processes,
        }
        return {name: digest_json(v) for name, v in values.items()}

    def to_config(self, **local: object) -> PreprocessConfig:
        """The options of the first process, with other local ones."""
        options = {name: v for name, v in flatten(self.options).items() if v is not None}
        form = {"format": options.pop("format.name")}
        config = compose_config({**form, **options, **local}, PREPROCESS)
        assert isinstance(config, PreprocessConfig)
        return config

    def check_same(self, started: PartsPlan, folder: Path) -> None:
        """Raise unless this process was started like those that have written the folder so far."""
        again = f"or delete {folder} to start again"
        if self.processes != started.processes:
            raise ToolkitError(
                f"{folder} was started with {started.processes} processes, but --part counts "
                f"{self.processes}. Give --part I/{started.processes}, {again}."
            )
        if self.tokenizer_source != started.tokenizer_source:
            raise ToolkitError(
                f"{folder} was started with {started.tokenizer_source}, but this process has "
                f"{self.tokenizer_source}. Give all processes the same, {again}."
            )
        if changed := diff_configs(started.compared_options, self.compared_options):
            raise ToolkitError(
                f"{folder} was started with other options: {describe_differences(changed)}. "
                f"Give all processes the same, {again}."
            )
        for split, files in self.inputs.items():
            if files != started.inputs.get(split):
                raise ToolkitError(
                    f"{folder} was started with other files of {split}pref: names, sizes or "
                    f"contents differ. Give all processes the same, {again}."
                )

    def check_tokenizer(self, folder: Path) -> None:
        """Raise unless the folder has the files of the tokenizer."""
        for name, digest in self.tokenizer.items():
            if not (folder / name).is_file() or sha256_file(folder / name) != digest:
                raise ToolkitError(
                    f"{folder / name} must be the file that the first process wrote, but is "
                    f"missing or changed. Delete {folder.parent} to start again."
                )


def make_plan(
    config: PreprocessConfig, files: Mapping[str, Sequence[Path]], parts: Mapping[str, int]
) -> PartsPlan:
    """The plan of this process, without tokenizer; `files` are those of each split."""
    form = {"name": config.format.name, **asdict(config.format.config)}
    options = {name: v for name, v in vars(config).items() if name not in LOCAL_OPTIONS}
    inputs = {
        split: [[path.name, sample_digest(path)] for path in paths]
        for split, paths in files.items()
    }
    return PartsPlan(config.share.processes, {**options, "format": form}, inputs, dict(parts))


def write_plan(path: Path, plan: PartsPlan, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the plan with the digests of the tokenizer, which is saved in the folder."""
    digests = {name: sha256_file(folder / name) for name in tokenizer.files}
    write_signed_json(path, asdict(replace(plan, tokenizer=digests)))


def read_plan(path: Path) -> PartsPlan:
    """The plan that the first process wrote, with its digest checked."""
    remedy = f"Delete {path.parent} to start again."
    return check_digest(path, read_json(path, JsonObject, remedy), PartsPlan, remedy)
