"""The package for an index: its version, addresses, commands and files agree everywhere."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path

import pytest
import yaml

import toolkit
from toolkit.cli.toolkit import COMMANDS

REPOSITORY = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def section(name: str) -> str:
    """A table of pyproject.toml as text; Python 3.10 has no parser of TOML."""
    return read("pyproject.toml").split(f"\n[{name}]\n")[1].split("\n[")[0]


def value(key: str, table: str) -> str:
    return re.findall(rf'^{key} = "(.+)"$', section(table), re.M)[0]


def test_version_is_the_same_everywhere():
    assert yaml.safe_load(read("CITATION.cff"))["version"] == toolkit.__version__
    assert value("version", "project") == toolkit.__version__
    assert f"version = {{{toolkit.__version__}}}" in read("docs/citing.md")
    assert f"\n## {toolkit.__version__} " in read("CHANGELOG.md")


def test_addresses_are_the_same_everywhere():
    site, citation = read("mkdocs.yml"), yaml.safe_load(read("CITATION.cff"))
    repository, documentation = (value(k, "project.urls") for k in ("Repository", "Documentation"))
    assert f"\nrepo_url: {repository}\n" in site and f"\nsite_url: {documentation}\n" in site
    assert (citation["repository-code"], citation["url"]) == (repository, documentation)
    assert f'repository = "{repository}"' in read("setup.py")


def test_every_command_is_a_script():
    scripts = dict(re.findall(r'^(\S+) = "(.+)"$', section("project.scripts"), re.M))
    assert scripts.keys() == {"toolkit", *(f"toolkit-{word}" for word in COMMANDS)}
    for target in scripts.values():
        module, _, function = target.partition(":")
        assert callable(getattr(importlib.import_module(module), function))


def test_files_that_are_no_modules_are_package_data():
    [patterns] = re.findall(r"^toolkit = \[(.+)\]$", section("tool.setuptools.package-data"), re.M)
    root = REPOSITORY / "toolkit"
    declared = {file for glob in re.findall(r'"(.+?)"', patterns) for file in root.glob(glob)}
    assert root / "py.typed" in declared
    files = {file for file in root.glob("**/*") if file.is_file()}
    assert {file for file in files if file.suffix not in (".py", ".pyc")} == declared


def test_python_versions_are_the_tested_ones():
    tested = yaml.safe_load(read(".github/workflows/tests.yml"))["jobs"]["tests"]["strategy"]
    declared = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', section("project"))
    assert tested["matrix"]["python"] == declared
    assert value("requires-python", "project") == f">={declared[0]}"


def test_links_of_the_index_are_absolute_and_those_of_the_repository_exist():
    text = runpy.run_path(str(REPOSITORY / "setup.py"))["absolute_links"](
        read("README.md"), "1.2.3"
    )
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets and all(target.startswith(("https://", "#")) for target in targets)
    prefix = "https://github.com/toolkit-seq/toolkit/"
    for path in re.findall(rf"\]\({prefix}(?:raw|blob)/v1\.2\.3/([^)#]+)", text):
        assert (REPOSITORY / path).exists(), path


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_read_permissions_and_timeouts(workflow):
    content = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    assert content["permissions"] == {"contents": "read"} and "concurrency" in content
    assert "secrets." not in workflow.read_text(encoding="utf-8")
    jobs = [job for job in content["jobs"].values() if "uses" not in job]
    assert all(job["timeout-minutes"] <= 60 for job in jobs)
