import subprocess
import sys

import pytest

from toolkit.common.errors import ToolkitError
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.help import handle_info_flags
from toolkit.config.load import load


def test_help_shows_every_field_of_a_command_once(flat):
    text = handle_info_flags(["--help"], flat)
    for flag in ["language", "title", "share", "limit", "shout", "parts", "path"]:
        assert text.count(f"  --{flag} ") == 1
    assert "arguments:\n  FILES...  Files to read, in order.\n\ncommon options:" in text
    assert "--parts N..." in text and "  --list " not in text


def test_help_with_a_component_shows_its_options(train):
    bare, named = (
        handle_info_flags(["--help"], train),
        handle_info_flags(["--help", "--arch", "bert_tiny"], train),
    )
    assert "--arch.layers" not in bare and "composite_bert_small " in bare
    assert "options of arch bert_tiny:\n  --arch.layers N " in named
    assert "(default: 2)" in named and "--task.mask-rate" not in named


def test_help_and_messages_fold_the_sizes_of_an_architecture(train):
    text = handle_info_flags(["--help"], train)
    assert "  composite_bert[_small|_tiny]  " in text and "  conv_san[_ud]  " in text
    assert "composite_bert_tiny" not in text and "  mlm  " in text
    with pytest.raises(ToolkitError, match=r"--arch is required: one of bert\[.*_small\|_tiny\], "):
        load(["data"], train)


def test_help_with_a_plugin_shows_its_components_options(train, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from toolkit import register_criterion\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Config:\n    odd: bool = True\n    '''Whether it is odd.'''\n"
        "@register_criterion('helped_plugin', Config())\n"
        "def build(c): ...\n"
    )
    text = handle_info_flags(["--user-dir", str(tmp_path), "--help"], train)
    assert "options of criterion helped_plugin:\n" in text
    assert "--criterion.odd  Whether it is odd. (default: true)" in text


def test_bare_help_and_lists_load_nothing_slow():
    code = (
        "import sys\n"
        "from toolkit.cli.toolkit import COMMANDS, main\n"
        "assert not any(main([command, '--help']) for command in COMMANDS)\n"
        "assert main(['train', '--list', 'archs']) == 0\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "omegaconf", "rich"} & set(ran.stderr.split())
    assert ran.stdout.count("usage: toolkit-") == 9


def test_bare_help_shows_common_options_of_the_default_component():
    text = handle_info_flags(["--help"], PREPROCESS)
    assert "  --format.segment-by {lines,paragraphs,sentences}" in text
    assert "  --format.valid-fraction X" in text
    named = handle_info_flags(["--help", "--format", "parallel"], PREPROCESS)
    assert "segment-by" not in named and "--format.joined-dictionary" in named


@pytest.mark.parametrize(
    ("kind", "name"), [("archs", "composite_bert_small"), ("lr-schedulers", "linear")]
)
def test_list_prints_a_line_per_component(train, kind, name):
    rows = handle_info_flags(["--list", kind], train).splitlines()
    assert [row for row in rows if row.startswith(f"{name} ") and len(row.split()) > 2]
