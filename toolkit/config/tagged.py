"""Options of toolkit-preprocess that text with a tag for each word has."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from toolkit.config.labelled import LABELLED, LABELLED_ONLY
from toolkit.config.parallel import PARALLEL, PARALLEL_ONLY
from toolkit.config.reading import READING
from toolkit.config.sections import require

TAGGED = ("conllu", "ptb", "columns")
FORMATS = ("text", *TAGGED, *LABELLED, *READING, PARALLEL)
UNTAGGED = ("text", *LABELLED, *READING, PARALLEL)
ONLY_FOR = {  # option -> the formats that it says something about
    **dict.fromkeys(("tag", "empty_nodes"), ("conllu",)),
    **dict.fromkeys(("train_sections", "valid_sections", "test_sections"), ("ptb",)),
    **dict.fromkeys(("vocabulary_from", "type_share", "unseen_tags"), TAGGED),
    **dict.fromkeys(("word_vectors", "word_vectors_first"), TAGGED),
    **dict.fromkeys(("units", "valid_share", "test_share"), ("text",)),
    **dict.fromkeys(("tokenizer", "srcdict", "split_digit_commas"), UNTAGGED),
    "too_long": ("text", PARALLEL),
    "max_item_tokens": ("text", *TAGGED, PARALLEL),
    **LABELLED_ONLY,
    **PARALLEL_ONLY,
}


@dataclass(frozen=True, kw_only=True)
class TaggedConfig:
    """Fields that only formats other than text use, and the splits that they share with text."""

    trainpref: str = ""
    """Text to train on: files (plain, .gz or .xz) or folders of them, separated by commas.
    A folder stands for the .txt, .txt.gz and .txt.xz files in it, or with another format for the
    files of that. Each file is a document."""
    validpref: str = ""
    """Text to validate on, given like trainpref."""
    testpref: str = ""
    """Text to test on, given like trainpref."""
    destdir: str = "data-bin"
    """Folder to write; it must not exist yet or be empty, unless overwrite is given."""
    format: str = "text"
    """What the files hold. text: running text. With a tag for each word, for the task pos_tagging:
    conllu: CoNLL-U, as Universal Dependencies; ptb: Penn Treebank, .mrg and .pos; columns: a word
    and its tag a line, with a tab or a space between them, and a blank line behind a sentence. With
    a class or a number for each text or pair, for the task glue: glue: the tables of GLUE; tsv:
    tables of one's own, tab-separated, with names in the first line. With questions about texts:
    squad: SQuAD's JSON, 1.1 or 2.0, for the task squad; race: RACE's folders, and swag: SWAG's csv,
    for the task multiple_choice. parallel: two languages line
    by line, for the task translation; source-lang and target-lang say it too."""
    tag: str = "upos"
    """conllu: the tag. upos, xpos or the name of a feature such as Number."""
    empty_nodes: bool = False
    """conllu: read empty nodes (numbers such as 8.1) as words too; multiword ranges never are."""
    train_sections: str = ""
    """ptb: sections of trainpref to read, as 0-18 or 0,2,4: two digits of the front of wsj_0123, or
    of the folder of other files; four digits are files, as 0001-0139. Without it all."""
    valid_sections: str = ""
    """ptb: sections of validpref to read."""
    test_sections: str = ""
    """ptb: sections of testpref to read."""
    vocabulary_from: str = "train"
    """Tagged text: the part whose words and tags are known. train, or all as in Dufter et al. 2020,
    who also counted the words of the parts for validation and test."""
    type_share: float = 1.0
    """Tagged text: share of the different words, the most frequent ones, that are in the
    vocabulary, 0 to 1, in place of vocab_size; Dufter et al. 2020 take 0.5."""
    unseen_tags: str = "error"
    """Tagged text: what becomes of a tag in validation or test that training does not have. error:
    the run ends and names its line. wrong: the word stays, and whatever is predicted is wrong;
    CoNLL-U and columns without tags, with _ in their place, are then read too, for
    toolkit-validate --predictions, and counted nowhere."""
    word_vectors: str | None = None
    """Tagged text: vectors of words to start from, as fastText's .vec, plain or .gz: a line with
    count and width, then a word and its numbers a line."""
    word_vectors_first: int = 0
    """Vectors to read from the front of that file, which is sorted by frequency; 0 for all."""

    def check_tagged(self) -> None:
        """Rules for these options; called where the others are checked."""
        require(
            self.format in FORMATS,
            f"format must be one of {', '.join(FORMATS)}, but is {self.format!r}.",
        )
        require(
            self.vocabulary_from in ("train", "all"),
            f"vocabulary_from must be train or all, but is {self.vocabulary_from!r}.",
        )
        require(
            self.unseen_tags in ("error", "wrong"),
            f"unseen_tags must be error or wrong, but is {self.unseen_tags!r}.",
        )
        require(
            0 < self.type_share <= 1,
            f"type_share must lie between 0 and 1, but is {self.type_share}.",
        )
        require(
            self.word_vectors_first >= 0,
            f"word_vectors_first must not be negative, but is {self.word_vectors_first}.",
        )


def refuse_of_other_formats(config: TaggedConfig) -> None:
    """An option of another format would do nothing."""
    for field in fields(config):
        formats: tuple[str, ...] = ONLY_FOR.get(field.name, FORMATS)
        value: Any = getattr(config, field.name)
        require(
            config.format in formats or value == field.default,
            f"{field.name} must be given with --format {' or '.join(formats)}, but the format is "
            f"{config.format}. Leave it out.",
        )
