import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.commands.share import parse_share
from toolkit.config.load import compose_config

LAUNCHERS = ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS")
ARRAY = ("TASK_ID", "TASK_MIN", "TASK_MAX", "TASK_COUNT")


@pytest.fixture
def launched(monkeypatch):
    """Sets the variables of a launcher: its own ones, and those of a Slurm array."""
    for name in (*LAUNCHERS, *(f"SLURM_ARRAY_{name}" for name in ARRAY)):
        monkeypatch.delenv(name, raising=False)

    def launch(array=(), **variables):
        named = {f"SLURM_ARRAY_{name}": value for name, value in zip(ARRAY, array, strict=False)}
        for name, value in {**variables, **named}.items():
            monkeypatch.setenv(name, str(value))

    return launch


def test_shares_cover_all_items_once():
    items = list(range(10))
    shares = [parse_share(f"{n}/3").select(items) for n in (1, 2, 3)]
    assert shares == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert parse_share("12/12").select(items) == []


@pytest.mark.parametrize("text", ["3/2", "0/4", "1/0", "1", "1/2/3", "-1/2", "a/b", "1 / 2"])
def test_other_text_than_i_of_n_is_rejected(text):
    message = f"part must be I/N with I from 1 to N, such as 2/4, or auto, but is '{text}'"
    with pytest.raises(ToolkitError, match=message):
        compose_config({"trainpref": "a", "part": text}, PREPROCESS)


@pytest.mark.parametrize(
    ("variables", "share"),
    [
        ({"RANK": 2, "WORLD_SIZE": 4}, "3/4"),
        ({"SLURM_PROCID": 0, "SLURM_NTASKS": 4}, "1/4"),
        ({"array": (3, 1, 8, 8)}, "3/8"),
        ({"array": (0, 0, 7, 8), "SLURM_PROCID": 0, "SLURM_NTASKS": 1}, "1/8"),
        ({"array": (6, 5, 6, 2), "SLURM_PROCID": 2, "SLURM_NTASKS": 4}, "7/8"),
        ({"RANK": 1, "WORLD_SIZE": 2, "SLURM_PROCID": 0, "SLURM_NTASKS": 4}, "2/2"),
    ],
)
def test_auto_is_the_process_of_the_launcher(launched, variables, share):
    launched(**variables)
    assert str(parse_share("auto")) == share


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "--part auto requires torchrun, srun or a Slurm array, but none of them started this"),
        ({"RANK": 1}, "requires the number WORLD_SIZE in the environment, but it is ''. Give --p"),
        ({"array": (4, 2, 8, 3)}, "requires a Slurm array with consecutive numbers, such as --arr"),
    ],
)
def test_auto_requires_a_launcher(launched, variables, message):
    launched(**variables)
    with pytest.raises(ToolkitError, match=message):
        parse_share("auto")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trainpref": "a"}, "--close cannot be combined with input: the parts have been written"),
        ({"part": "1/2"}, "--close cannot be combined with --part"),
    ],
)
def test_close_takes_no_input(options, message):
    with pytest.raises(ToolkitError, match=message):
        compose_config({"close": True, **options}, PREPROCESS)
