"""Mutated JSON files: commands read them or exit with one line; other digests are rejected."""

from __future__ import annotations

import shutil

import pytest

from tests.helpers.json_instances import KINDS, Instances, run
from tests.helpers.json_mutations import mutate


def summarize(stderr):
    lines = [line.strip() for line in stderr.splitlines()]
    places = [line for line in lines if "/toolkit/" in line and line.startswith("File")]
    return f"{places[-1][-90:] if places else ''} {lines[-1][:150] if lines else ''}"


@pytest.fixture(scope="module")
def instances(tmp_path_factory):
    return Instances(tmp_path_factory.mktemp("instances"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_mutated_json_is_read_or_rejected_in_one_line(kind, instances, tmp_path):
    problems, inputs = [], 0
    folder = getattr(instances, kind.instance)
    text = (folder / kind.file).read_text("utf-8")
    text = text.partition("\n")[0] if kind.file.endswith(".jsonl") else text
    for number, mutation in enumerate(mutate(text, kind.count, seed=11)):
        copied = shutil.copytree(folder, tmp_path / f"{number}", symlinks=True)
        kind.replace(copied, mutation.text)
        commands = [line.split() for line in kind.commands(copied, instances)]
        for words in (commands * 2)[number % len(commands) :][: min(2, len(commands))]:
            code, stderr = run(words)
            inputs += 1
            lines = [line for line in stderr.splitlines() if line.startswith("toolkit-")]
            if code not in (0, 2) or (code == 2 and len(lines) != 1):
                problems.append(f"{words[0]}: {mutation.label}: {code} {summarize(stderr)}")
        shutil.rmtree(copied)
    assert not problems, f"PROBLEMS {len(problems)} of {inputs} for {kind}\n\n" + "\n".join(
        problems
    )
