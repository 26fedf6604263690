"""The data arguments of a command: several corpora, each a folder or a list of shards."""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from pathlib import Path

from toolkit.common.errors import ToolkitError
from toolkit.config.sections import DataConfig
from toolkit.data.storage.data_folder import DataFolder, open_folder
from toolkit.data.storage.source import FolderSource
from toolkit.data.tokenizers.tokenizer import LanguagePair, Tokenizer
from toolkit.data.tokenizers.vocabulary import Vocabulary

SHARD_SEPARATOR = ":"


class Corpora:
    """`A B` are two corpora read as one; `A:B:C` are the shards of one corpus.

    Epoch e (from 1) reads shard (e - 1) mod n of every corpus, n being its number of shards. All
    folders are opened at once, which reads no token.
    """

    def __init__(self, corpora: Sequence[Sequence[FolderSource]]) -> None:
        self.corpora = [list(shards) for shards in corpora]
        self.all = DataFolder([source for shards in self.corpora for source in shards])
        self.path = self.all.path

    @classmethod
    def open(cls, *arguments: str, languages: LanguagePair | None = None) -> Corpora:
        """Check the headers and sizes of every folder, and that all share one vocabulary.

        `languages` selects one of several pairs of fairseq folders, and its direction.
        """
        paths = [[p for p in argument.split(SHARD_SEPARATOR) if p] for argument in arguments]
        if not paths or not all(paths):
            raise ToolkitError("a data folder is required. Name one or more.")
        return cls([[open_folder(Path(path), languages) for path in shards] for shards in paths])

    @classmethod
    def of_run(cls, config: DataConfig) -> Corpora:
        """The data of a run, which must have the languages that the run names."""
        corpora = cls.open(*config.dirs, languages=config.languages)
        found = corpora.tokenizer.language_pair if config.languages else None
        if found != config.languages:
            held = f"translates {'-'.join(found)}" if found else "has no language pair"
            raise ToolkitError(
                f"--source-lang {config.source_lang} and --target-lang {config.target_lang} need "
                f"data in these languages, but {corpora.all.name} {held}. Run toolkit-preprocess "
                f"with these options."
            )
        return corpora

    @property
    def cycle(self) -> int:
        """Number of epochs until the shards repeat."""
        return lcm(*map(len, self.corpora))

    @property
    def fingerprint(self) -> str:
        return self.all.fingerprint

    @property
    def tokenizer(self) -> Tokenizer:
        return self.all.tokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        return self.all.vocabulary

    def for_epoch(self, epoch: int) -> DataFolder:
        """The epoch's shard of every corpus, corpus after corpus."""
        return DataFolder([shards[(epoch - 1) % len(shards)] for shards in self.corpora])

    def prefixes(self, epoch: int) -> list[DataFolder]:
        """The epoch's folders of the first corpus, of the first two, ..., of all but the last."""
        sources = self.for_epoch(epoch).sources
        return [DataFolder(sources[:count]) for count in range(1, len(sources))]

    def check_split(self, split: str) -> None:
        """Raise if a shard lacks the split: its epochs would have no examples."""
        without = [
            str(shard.path)
            for shards in self.corpora
            for shard in shards
            if len(shards) > 1 and split not in shard.splits
        ]
        if without:
            raise ToolkitError(
                f"every shard must have a split {split!r}, but {', '.join(without)} has none. "
                f"Leave it out, or preprocess it again."
            )

    def with_split(self, split: str) -> DataFolder:
        """For evaluation: the first shard of each corpus that has the split."""
        first = [
            next((shard for shard in shards if split in shard.splits), None)
            for shards in self.corpora
        ]
        return DataFolder([source for source in first if source]) if any(first) else self.all
