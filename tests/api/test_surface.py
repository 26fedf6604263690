"""The public names of toolkit are those that docs/guides/python.md lists, with these signatures."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import toolkit
from toolkit.tasks.learner import Learner

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs/guides/python.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([\w.]+)(\(.*\))?` \|", PAGE, re.M)
HOW_TO_CHANGE = (
    "The names and signatures in the table of docs/guides/python.md are stable. If this change "
    "is meant, keep the old name working if you can, update the table and add a line to "
    "CHANGELOG.md."
)


def bare_signature(function):
    """Names and defaults of the parameters, without annotations."""
    parameters = inspect.signature(function).parameters.values()
    shown = [p.replace(annotation=p.empty) for p in parameters if p.name != "self"]
    return str(inspect.Signature(shown))


@pytest.mark.parametrize(("name", "signature"), ROWS, ids=[name for name, _ in ROWS])
def test_public_names_have_the_documented_signatures(name, signature):
    value, attributes = toolkit, name.split(".")
    for attribute in attributes[:-1]:
        value = getattr(value, attribute)
    if signature:
        found = bare_signature(getattr(value, attributes[-1], None) or (lambda: None))
        assert found == signature, HOW_TO_CHANGE
    elif len(attributes) > 1:  # set in __init__ or declared on the class
        declared = {*dir(value), *inspect.get_annotations(value)}
        source = inspect.getsource(value)
        assert attributes[-1] in declared or f"self.{attributes[-1]}" in source, HOW_TO_CHANGE
    else:
        assert hasattr(value, name), HOW_TO_CHANGE


def test_page_lists_all_public_names():
    assert {name for name, _ in ROWS if "." not in name} == set(toolkit.__all__), HOW_TO_CHANGE


def test_dir_lists_all_names_and_unknown_names_are_attribute_errors():
    assert set(toolkit.__all__) <= set(dir(toolkit)) and "__version__" in dir(toolkit)
    assert toolkit.Learner is Learner
    with pytest.raises(AttributeError, match="module 'toolkit' has no attribute 'build_modle'"):
        _ = toolkit.build_modle


def test_type_checkers_see_the_names_that_are_imported_when_first_used():
    source = ast.parse((REPOSITORY / "toolkit" / "__init__.py").read_text(encoding="utf-8"))
    [block] = [node for node in source.body if isinstance(node, ast.If)]
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    seen = {alias.name: node.module for node in block.body for alias in node.names}
    assert seen == toolkit._LAZY
