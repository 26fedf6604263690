"""Reading a dataset does not load the program that made it."""

import subprocess
import sys

READERS = (
    "classification.split",
    "classification.glue",
    "parallel.files",
    "qa.split",
    "tagging.split",
    "tagging.write_predictions",
)


def test_readers_of_splits_do_not_import_preprocessing():
    names = [f"toolkit.data.formats.{name}" for name in READERS]
    code = f"import sys, {', '.join(names)}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert set(names) <= loaded and "conllu" not in loaded
    writers = {name for name in loaded if name.startswith("toolkit.data.preprocess")}
    assert not writers and "toolkit.data.formats.format" not in loaded
