"""The Python reference: every public name has a docstring, and the site shows all of them."""

import re
import zlib
from pathlib import Path

import pytest

import toolkit

pytest.importorskip("griffe", reason="the extra `docs` is not installed")

from tools.docs_site.modules import inner_modules, load_package, public_members, read_documented

REPOSITORY = Path(__file__).resolve().parents[2]
SELF_EXPLANATORY = {
    *("batch", "classes", "dataset", "folder", "found", "inputs", "items", "learner", "lines"),
    *("owner", "path", "sentences", "texts"),
}
"""Parameters of stable functions that their name and annotation explain."""


@pytest.fixture(scope="module")
def package():
    return load_package(REPOSITORY)


def list_modules(module):
    inner = inner_modules(module)
    return [*inner, *(deeper for each in inner for deeper in list_modules(each))]


@pytest.fixture(scope="module")
def public(package):
    """Path -> every public class and function of the package."""
    members = [each for module in list_modules(package) for each in public_members(module)]
    return {each.path: each for each in members}


@pytest.fixture(scope="module")
def documented(package):
    """The objects that pages of docs/reference/python document."""
    return [package[path.removeprefix("toolkit.")] for path in sorted(read_documented(REPOSITORY))]


def public_methods(documented_class):
    """Methods and properties that the pages show, for the learner with those of its base class."""
    known = {**documented_class.members}
    if documented_class.name == "Learner":
        known = {**documented_class.inherited_members, **known}
    targets = [each.final_target if each.is_alias else each for each in known.values()]
    return [
        each
        for each in targets
        if not each.name.startswith("_") and (each.is_function or "property" in each.labels)
    ]


@pytest.mark.slow
def test_every_public_class_and_function_has_a_docstring(package, public):
    members = [*list_modules(package), *public.values()]
    assert not [each.path for each in members if not each.docstring]


def test_every_method_of_a_documented_class_has_a_docstring(documented):
    def explained(owner, method):
        ancestors = [owner, *owner.mro()]
        found = [each.members.get(method.name) for each in ancestors]
        return any(each is not None and each.docstring for each in found)

    classes = [each for each in documented if each.is_class]
    methods = [(owner, method) for owner in classes for method in public_methods(owner)]
    assert not [f"{o.path}.{m.name}" for o, m in methods if not explained(o, m)]


def test_reference_has_all_stable_names(package, documented):
    paths = {each.path for each in documented}
    stable = [package[name].canonical_path for name in toolkit.__all__]
    assert not [path for path in stable if path not in paths]
    names = re.findall(r'"(\w+)"', str(package["huggingface.__all__"].value).replace("'", '"'))
    exported = [package[f"huggingface.{name}"].canonical_path for name in names]
    assert exported and not [path for path in exported if path not in paths]


def test_docstrings_of_stable_functions_explain_their_parameters(package):
    stable = [package[name] for name in toolkit.__all__]
    objects = [each.final_target if each.is_alias else each for each in stable]
    functions = [each for each in objects if each.is_function]
    functions += [m for each in objects if each.is_class for m in public_methods(each)]
    missing = [
        f"{function.path}({name})"
        for function in functions
        if function.is_function and function.docstring
        for name in (parameter.name.lstrip("*") for parameter in function.parameters)
        if name not in {"self", "cls", *SELF_EXPLANATORY}
        and not re.search(rf"\b{name}\b", function.docstring.value)
    ]
    assert not missing


@pytest.mark.slow
def test_site_documents_as_many_classes_and_functions_as_there_are(site, public):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    names = {line.split(" ")[0] for line in zlib.decompress(inventory).decode().splitlines()}
    assert len(public.keys() & names) == len(public), sorted(public.keys() - names)
