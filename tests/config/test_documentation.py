from dataclasses import dataclass

from toolkit.config.documentation import Described, described, field_help


@dataclass
class Parent:
    a: int = 0
    """What a is,
    on two lines."""
    b: int = 0


@dataclass
class Child(Parent):
    b: int = 1
    """What b is."""


def test_the_string_under_a_field_is_its_help_on_one_line():
    assert field_help(Parent) == {"a": "What a is, on two lines."}


def test_inherited_fields_keep_their_help():
    assert field_help(Child) == {"a": "What a is, on two lines.", "b": "What b is."}


def test_a_file_is_read_without_importing_it(tmp_path):
    file = tmp_path / "part.py"
    file.write_text('1 / 0\nclass C:\n    lr: float = 1.0\n    """Rate."""\n')
    assert described(str(file)) == {"C": {"lr": Described("float", "Rate.")}}


def test_a_class_without_source_has_no_help():
    scope = {}
    exec("class Typed:\n    a: int = 0\n    'not kept'", scope)
    Typed = scope["Typed"]
    Typed.__module__ = "__main__"
    assert described("<stdin>") == {}
