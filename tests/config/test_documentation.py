from dataclasses import dataclass

from toolkit.config.options import FieldDoc, field_help, read_field_docs


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
    assert read_field_docs(str(file)) == {"C": {"lr": FieldDoc("float", "Rate.")}}


def test_a_class_typed_at_a_prompt_has_no_help(monkeypatch):
    monkeypatch.setattr(Parent, "__module__", "__no_such_module__")
    assert field_help(Parent) == {}
