"""Reading a dataset does not load the program that made it."""

import subprocess
import sys

READERS = (
    "classification.split",
    "classification.tables",
    "parallel.files",
    "qa.split",
    "tagging.split",
)


def test_readers_of_splits_do_not_import_preprocessing():
    names = [f"toolkit.data.formats.{name}" for name in READERS]
    code = f"import sys, {', '.join(names)}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert set(names) <= loaded and not {"conllu", "torch"} & loaded
    program = ("preprocess", "preprocessing.choose_tokenizer", "formats.format")
    assert not {f"toolkit.data.{name}" for name in program} & loaded
