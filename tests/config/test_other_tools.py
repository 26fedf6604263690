import pytest

from toolkit.cli.command import execute
from toolkit.cli.generate import MODES
from toolkit.cli.predict import COMMAND as PREDICT
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import counterparts
from toolkit.config.command import Command
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.commands.train import TRAIN
from toolkit.config.declared import to_flag
from toolkit.config.load import compose, load

TRANSLATE, _, FILL_MASK, *_ = MODES
RUN = ["data", "--arch", "bert_tiny", "--task", "mlm", "--max-update", "1"]


def message(argv: list[str], command: Command = TRAIN) -> str:
    with pytest.raises(ToolkitError) as error:
        load(argv, command)
    return str(error.value)


@pytest.mark.parametrize(
    ("theirs", "answer"),
    [
        ("--learning-rate=1e-4", "--learning-rate. Write --lr instead."),
        (
            "--per-device-train-batch-size=8",
            "Write --batch-size instead. It is the number of examples on each rank.",
        ),
        (
            "--warmup-steps=10",
            "Write --warmup-updates instead. A fraction of the run is --warmup-fraction.",
        ),
        ("--tf32", "Write --precision tf32 instead."),
        ("--doc-stride=9", "Write --stride instead, which requires --task squad."),
        ("--load-best-model-at-end", "The best checkpoint is always kept, as checkpoint_best."),
        ("--train-file=a.txt", "toolkit-preprocess reads the files: --trainpref, --validpref"),
        ("--distributed-world-size=2", "Start the command with torchrun"),
    ],
)
def test_option_of_another_tool_is_answered_with_ours(theirs, answer):
    assert answer in message([*RUN, theirs])


@pytest.mark.parametrize(
    ("command", "option", "answer"),
    [
        (FILL_MASK, "--nbest", "See --help."),
        (FILL_MASK, "--num-beams", "Other commands have it as --beam. See --help."),
        (FILL_MASK, "--scoring", "Translations with references always get BLEU, chrF and TER."),
        (TRANSLATE, "--fp16", "Write --precision fp16 instead."),
        (TRAIN, "--model-overrides", "The model is that of the checkpoint; toolkit-validate"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_option_of_another_command_is_answered(command, option, answer):
    argv = RUN if command is TRAIN else []
    expected = f"no option is called {option}. {answer}"
    assert message([*argv, option, "1"], command).startswith(expected)


@pytest.mark.slow
def test_every_option_of_the_other_tools_is_answered():
    answered = (name for name, it in counterparts().items() if it.options or it.otherwise)
    for name in answered:
        text = message([f"{to_flag(name)}=1"], PREDICT)
        assert "is called" not in text or len(text.split(". ")) > 2, text


def test_key_of_another_tool_in_a_file_is_answered_with_a_key(tmp_path):
    file = tmp_path / "hf.yaml"
    for text, key in (("learning_rate: 1e-4", "optimizer.lr"), ("tf32: true", "precision: tf32")):
        file.write_text(f"arch: bert_tiny\ntask: mlm\n{text}\n")
        assert f"{key} instead." in message(["--config", str(file)])
    file.write_text("arch: bert_tiny\ntask: mlm\ntraining: {max_steps: 9}\n")
    text = message(["--config", str(file)])
    assert f"training.max_steps ({file}). Write training.max_update instead." in text


ROBERTA = """
    data --task masked_lm --criterion masked_lm --arch roberta_base --tokens-per-sample 512
    --sample-break-mode complete --optimizer adam --adam-betas (0.9,0.98) --adam-eps 1e-6
    --lr-scheduler polynomial_decay --lr 0.0005 --total-num-update 9 --max-update 9 --fp16
"""
ROBERTA_HERE = """
    data --task mlm --criterion cross_entropy --arch bert --max-positions 512 --token-types 1
    --norm-epsilon 1e-5 --tokens-per-sample 512 --sample-mode blocks --optimizer adamw
    --beta1 0.9 --beta2 0.98 --eps 1e-6 --lr-scheduler polynomial --lr 0.0005 --max-update 9 --fp16
"""
TRAINER = """
    --model_name_or_path bert --do_train --per_device_train_batch_size 8 --num_train_epochs 1
    --output_dir x --task_name mrpc
"""


@pytest.mark.slow
def test_command_of_another_tool_is_answered_at_once_with_the_same_command_here(capsys):
    assert execute(TRAIN, ROBERTA.split()) == 2
    error, *rows, title, command = capsys.readouterr().err.splitlines()
    assert error.endswith(": 9 options are those of other tools or unknown:")
    assert "  --adam-betas (0.9,0.98)         --beta1 0.9 --beta2 0.98" in rows
    assert title == "Write:" and command.split() == ["toolkit-train", *ROBERTA_HERE.split()]
    assert load(ROBERTA_HERE.split(), TRAIN).config.arch.config.token_types == 1

    assert execute(TRAIN, TRAINER.split()) == 2
    error, *rows = capsys.readouterr().err.splitlines()
    assert error.endswith(": 6 options are those of other tools or unknown:")
    assert rows[-3:-1] == [
        "What has a counterpart here:",
        "  toolkit-train --finetune-from bert --batch-size 8 --max-epoch 1 --save-dir x",
    ]
    assert "Then: No such checkpoint: bert." in rows[-1]


def test_options_that_an_implied_format_has_are_no_foreign_ones(capsys):
    argv = ["--source-lang", "de", "--target-lang", "en", "--joined-dictionary"]
    assert execute(PREPROCESS, [*argv, "--nwordstgt", "9000", "--bpe", "x"]) == 2
    error, *rows = capsys.readouterr().err.splitlines()
    assert error.endswith(": 2 options are those of other tools or unknown:")
    assert " --source-lang de --target-lang en --joined-dictionary --vocab-size 9000" in rows[3]


def test_unknown_options_are_reported_together_also_without_components(tmp_path, capsys):
    execute(TRAIN, ["data", "--nonsense", "1", "--layers", "2"])
    (error,) = capsys.readouterr().err.splitlines()
    assert "is called --nonsense." in error and "Also: --arch is required" in error
    with pytest.raises(
        ToolkitError, match=r"called foo\..*called learning_rate\. Write lr instead"
    ):
        compose({"arch": "bert_tiny", "task": "mlm", "foo": 1, "learning_rate": 1})
    (tmp_path / "run.yaml").write_text("arch: bert_tiny\ntask: mlm\nfoo: 1\nlearning_rate: 1\n")
    assert "Write optimizer.lr instead." in message(["--config", str(tmp_path / "run.yaml")])
