"""Nonsense as the value of every option of every command."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("matplotlib")


@pytest.mark.slow
def test_every_option_answers_nonsense_in_one_line(repository, tmp_path):
    words = [sys.executable, "-m", "tests.helpers.option_fuzzer", str(tmp_path), "1"]
    subprocess.run(words, cwd=repository, check=True, capture_output=True)
    outcomes = [json.loads(line) for line in (tmp_path / "outcomes.jsonl").open()]
    assert len(outcomes) > 415 and {it["code"] for it in outcomes} == {0, 2}
    assert [it for it in outcomes if it["fault"]] == []
