import pytest

import toolkit
from toolkit.common.errors import ToolkitError
from toolkit.config.help import handle_info_flags


def test_command_lines_without_info_flags_return_none(train):
    assert handle_info_flags(["data", "--arch", "bert"], train) is None
    assert handle_info_flags(["--help=false", "--print-config=no"], train) is None


def test_version_is_printed(flat):
    assert handle_info_flags(["--version"], flat) == f"flat {toolkit.__version__}"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("archs", "composite_bert_small"),
        ("tasks", "mlm"),
        ("criteria", "cross_entropy"),
        ("optimizers", "adamw"),
        ("lr-schedulers", "linear"),
    ],
)
def test_list_prints_a_line_per_component(train, kind, name):
    rows = handle_info_flags(["--list", kind], train).splitlines()
    assert [row for row in rows if row.startswith(f"{name} ") and len(row.split()) > 2]


def test_unknown_list_names_the_known_ones(train):
    expected = (
        "--list must be one of archs, tasks, criteria, optimizers, lr_schedulers, callbacks, "
        "recipes, but is"
    )
    with pytest.raises(ToolkitError, match=expected):
        handle_info_flags(["--list", "models"], train)


def test_list_includes_plugins(train, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from toolkit import register_criterion\n"
        "@register_criterion('listed_plugin', object())\n"
        "def build(c):\n    'What mine is for.'\n"
    )
    text = handle_info_flags(["--user-dir", str(tmp_path), "--list", "criteria"], train)
    assert ["listed_plugin", "What mine is for."] in [
        line.split(maxsplit=1) for line in text.split("\n")
    ]
