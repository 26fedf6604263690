"""Options of toolkit-preprocess that tables of texts with a class or a number have."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from toolkit.config.sections import check_choice, require

PARALLEL = "parallel"
PARALLEL_ONLY = dict.fromkeys(
    ("joined_dictionary", "tgtdict", "target_sentencepiece_model"), (PARALLEL,)
)


@dataclass(frozen=True, kw_only=True)
class ParallelOptions:
    """Fields that only format parallel uses."""

    source_lang: str = ""
    """Language that is read, such as de. With it and target-lang the text is parallel: trainpref P
    stands for the files P.de and P.en, plain, .gz or .xz, whose lines belong together."""
    target_lang: str = ""
    """Language that is written, such as en."""
    joined_dictionary: bool = False
    """Parallel text: learn one vocabulary from both languages, so that models may share tables."""
    tgtdict: str | None = None
    """Parallel text: dictionary of the target's words to use, as srcdict is that of the source's;
    without it one is learned."""
    target_sentencepiece_model: str | None = None
    """Parallel text: SentencePiece model of the target, as sentencepiece-model is the source's."""

    def check_parallel(self) -> None:
        """Rules for these options; called where the others are checked."""
        form: Any = getattr(self, "format", "text")
        both = self.source_lang and self.target_lang
        require(
            form in ("text", PARALLEL) or not (self.source_lang or self.target_lang),
            f"source_lang and target_lang must come with parallel text, but the format is {form}. "
            f"Leave them out.",
        )
        require(
            bool(both) or not (self.source_lang or self.target_lang or form == PARALLEL),
            "source_lang and target_lang must both be given for parallel text, but "
            f"{'target_lang' if self.source_lang else 'source_lang'} is missing. Name both.",
        )
        require(
            not both or self.source_lang != self.target_lang,
            f"source_lang and target_lang must be two languages, but both are {self.source_lang}.",
        )
        if both:  # the two languages say the format
            object.__setattr__(self, "format", PARALLEL)

    def check_target(self, kind: str) -> None:
        """Rules for a vocabulary of the target's own, `kind` being the tokenizer."""
        for name, of in (("tgtdict", "words"), ("target_sentencepiece_model", "sentencepiece")):
            given = getattr(self, name) is not None
            require(
                not (given and self.joined_dictionary),
                f"{name} must be left out with joined_dictionary, but both are given: one "
                f"vocabulary serves both languages.",
            )
            require(
                not given or kind == of,
                f"{name} must come with tokenizer {of}, but that is {kind}. Give --tokenizer {of}.",
            )


SQUAD = "squad"
MULTIPLE_CHOICE_FORMATS = ("race", "swag")
QA_FORMATS = (SQUAD, *MULTIPLE_CHOICE_FORMATS)


CLASSIFICATION_FORMATS = ("glue", "tsv")
GLUE_TASKS = ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE", "WNLI", "AX")
CLASSIFICATION_ONLY = {
    "glue_task": ("glue",),
    **dict.fromkeys(("text_columns", "label_column", "label_type"), ("tsv",)),
    "on_malformed": (*CLASSIFICATION_FORMATS, *QA_FORMATS),
}


@dataclass(frozen=True, kw_only=True)
class ClassificationOptions:
    """Fields that only formats glue and tsv use."""

    glue_task: str = ""
    """glue: the task. CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI or AX, the diagnostic
    set, which a model of MNLI answers."""
    text_columns: str = "sentence"
    """tsv: the name of the column that has the text; of two, separated by a comma, for pairs."""
    label_column: str = "label"
    """tsv: the name of the column that has the answer; files for test may lack it."""
    label_type: str = "class"
    """tsv: class or number. Classes are those that the training part has."""
    on_malformed: str = "error"
    """Labeled text and questions: what becomes of a row with too few or too many columns, or with
    an answer that is none or does not stand where it says. error: the run ends and names its line.
    skip: it is left out, named and counted; not where answers are to be submitted."""

    def check_classification(self) -> None:
        """Rules for these options; called where the others are checked."""
        form: Any = getattr(self, "format", "text")
        require(
            form != "glue" or self.glue_task in GLUE_TASKS,
            f"glue_task must be one of {', '.join(GLUE_TASKS)}, but is {self.glue_task!r}.",
        )
        check_choice("label_type", self.label_type, ("class", "number"))
        check_choice("malformed", self.on_malformed, ("error", "skip"))
        names = self.text_columns.split(",")
        require(
            len(names) in (1, 2) and all(names),
            f"text_columns must be one name, or two with a comma, but is {self.text_columns!r}.",
        )


TAGGING_FORMATS = ("conllu", "ptb", "columns")
FORMATS = ("text", *TAGGING_FORMATS, *CLASSIFICATION_FORMATS, *QA_FORMATS, PARALLEL)
UNTAGGED_FORMATS = ("text", *CLASSIFICATION_FORMATS, *QA_FORMATS, PARALLEL)
ONLY_FOR = {  # option -> the formats that it says something about
    **dict.fromkeys(("tag", "empty_nodes"), ("conllu",)),
    **dict.fromkeys(("train_sections", "valid_sections", "test_sections"), ("ptb",)),
    **dict.fromkeys(("vocabulary_from", "type_fraction", "unseen_tags"), TAGGING_FORMATS),
    **dict.fromkeys(("word_vectors", "max_word_vectors"), TAGGING_FORMATS),
    **dict.fromkeys(("segment_by", "valid_fraction", "test_fraction"), ("text",)),
    **dict.fromkeys(("tokenizer", "srcdict", "split_digit_commas"), UNTAGGED_FORMATS),
    "overlength": ("text", PARALLEL),
    "max_item_tokens": ("text", *TAGGING_FORMATS, PARALLEL),
    **CLASSIFICATION_ONLY,
    **PARALLEL_ONLY,
}


@dataclass(frozen=True, kw_only=True)
class TaggingOptions:
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
    type_fraction: float = 1.0
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
    max_word_vectors: int = 0
    """Vectors to read from the front of that file, which is sorted by frequency; 0 for all."""

    def check_tagging(self) -> None:
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
            0 < self.type_fraction <= 1,
            f"type_fraction must lie between 0 and 1, but is {self.type_fraction}.",
        )
        require(
            self.max_word_vectors >= 0,
            f"max_word_vectors must not be negative, but is {self.max_word_vectors}.",
        )


def check_options_match_format(config: TaggingOptions) -> None:
    """An option of another format would do nothing."""
    for field in fields(config):
        formats: tuple[str, ...] = ONLY_FOR.get(field.name, FORMATS)
        value: Any = getattr(config, field.name)
        require(
            config.format in formats or value == field.default,
            f"{field.name} must be given with --format {' or '.join(formats)}, but the format is "
            f"{config.format}. Leave it out.",
        )
