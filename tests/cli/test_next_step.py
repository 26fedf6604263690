import shlex

import pytest

from toolkit.cli import average, convert, preprocess, train
from toolkit.cli.command import next_command, prepare

RUN = "my-data --arch bert_tiny --max-update 9"


@pytest.mark.parametrize(
    "module, words, command",
    [
        (preprocess, "--trainpref a --destdir d", "toolkit-train d --arch composite_bert_small"),
        (preprocess, "--format tsv --trainpref a", "toolkit-train data-bin --arch bert_small"),
        (train, f"{RUN} --task mlm", "toolkit-generate fill-mask --path runs/bert_tiny-mlm"),
        (train, f"{RUN} --task glue --save-dir r", "toolkit-predict --path r --input FILE"),
        (train, f"{RUN} --task mlm --seeds 1,2 --save-dir 'a b'", "toolkit-plot curve 'a b'"),
        (train, f"{RUN} --task mlm --no-save", ""),
        (average, "x y --output z", "toolkit-validate DATA --path z"),
        (convert, "import hf bert", "toolkit-preprocess --trainpref FILE --tokenizer-from bert"),
    ],
)
def test_next_command_continues_with_the_folders_of_this_one(module, words, command, tmp_path):
    _, loaded = prepare(module.COMMAND, shlex.split(words))
    found = next_command(loaded)
    assert found.startswith(command) and bool(found) == bool(command)
    if found.startswith("toolkit-train"):  # it is a whole command
        assert prepare(train.COMMAND, shlex.split(found)[1:])


@pytest.mark.parametrize(("split", "end"), [("valid", "0000"), ("train", "--valid-subset ''")])
def test_next_command_validates_if_the_data_can(split, end, tmp_path):
    (tmp_path / f"{split}.tokens.npy").touch()
    _, loaded = prepare(preprocess.COMMAND, ["--trainpref", "a", "--destdir", str(tmp_path)])
    assert next_command(loaded).endswith(end)
