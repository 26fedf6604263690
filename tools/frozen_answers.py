"""Check that a refactoring changes no answer: losses, weights and outputs of every command.

    python tools/frozen_answers.py [--tree PATH]             # compare with tools/frozen/record.json
    python tools/frozen_answers.py --record [--tree PATH]    # write it
    python tools/frozen_answers.py --compile [--cases TEXT]  # the trainings, with torch.compile

Every architecture is trained for three updates with every task that accepts it, and every command
is applied to the results, in processes whose `toolkit` is that of the tree (default: this one).
Losses, gradient norms and digests of weights are compared exactly on the machine of the record,
and to a relative 1e-4 without the digests on others and if compiled, which takes an hour or two;
then each case is printed as it ends. Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import io
import json
import math
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import tempfile
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import tomllib

sys.path.insert(0, str(Path(__file__).parent / "frozen"))
import cases

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tools" / "frozen" / "record.json"
UPDATES = "--log-interval 1 --num-workers 0 --device cpu"
DEFAULTS = {"--batch-size": "8", "--precision": "fp32"}
TRACED = ("loss", "gradient_norm", "lr")
VARIES = re.compile(  # times, speeds and sizes of files
    r"\d[\d,.:]*(e[+-]?\d+)? ?(ms|s|min|h|k|M|kB|MB|KiB|MiB|GiB|(tokens|items|pairs|updates"
    r"|sentences|examples|lines|characters|documents|words)(/s| per second))\b"
    r"|[^ ]*-20\d\d[^ ]*|20\d\d-\d\d-\d\d[T ][\d:.]+\S*|\bv?\d+\.\d+\.\d+\S*|sha256:\w+"
    r"|(?<![.\d])[0-9a-f]{12,}"
)


def call(words: list[str]) -> tuple[int | str, str, str]:
    """Exit code, standard output and standard error of a command, run in this process."""
    scripts = tomllib.loads((Path(os.environ["FROZEN_TREE"]) / "pyproject.toml").read_text())
    module, _, function = scripts["project"]["scripts"][f"toolkit-{words[0]}"].partition(":")
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: int | str = getattr(importlib.import_module(module), function)(words[1:])
        except SystemExit as exit:
            code = exit.code or 0
        except BaseException:
            code = traceback.format_exc().splitlines()[-1]
    return code, out.getvalue(), err.getvalue()


def call_spellings(text: str) -> tuple[int | str, str, str]:
    """`call` with the first spelling that is not refused."""
    for spelling in text.split(" || "):
        code, out, err = call(spelling.split())
        if code != 2:
            break
    return code, out, err


def digest_weights(file: Path) -> list[object]:
    """Digests of the names and of the values of a checkpoint, and its number of parameters."""
    from safetensors.numpy import load_file

    tensors, names, values = load_file(file), hashlib.sha256(), hashlib.sha256()
    for name in sorted(tensors):
        names.update(f"{name} {tensors[name].shape}\n".encode())
        values.update(tensors[name].tobytes())
    count = sum(tensor.size for tensor in tensors.values())
    return [count, names.hexdigest()[:16], values.hexdigest()[:16]]


def train(case: str, *more: str) -> dict[str, object]:
    """Losses of three updates, and the weights before and after them."""
    task, data, arch, *options = case.split()
    words = ["train", data, "--arch", arch, "--task", task, *UPDATES.split(), *options]
    words += [it for pair in DEFAULTS.items() if pair[0] not in options for it in pair]
    words, folder = [*words, *more], folder_of(case)
    code, _, _ = call([*words, "--max-update", "3", "--save-dir", folder])
    if code != 0:
        return {"code": code}
    lines = map(json.loads, (Path(folder) / "metrics.jsonl").read_text().splitlines())
    records = [record for record in lines if record["event"] in ("train", "valid")]
    found = {
        "updates": [[record.get(key) for key in TRACED] for record in records],
        "trained": digest_weights(Path(folder) / "checkpoint_last" / "model.safetensors"),
    }
    first = f"{folder}.first"
    if call([*words, "--lr", "0", "--max-update", "1", "--save-dir", first])[0] == 0:
        found["first"] = digest_weights(Path(first) / "checkpoint_last" / "model.safetensors")
    return found


def output(case: str) -> dict[str, object]:
    """Exit code and normalized standard output of a command, and the file that it wrote."""
    fields = {key: folder_of(run) for key, run in cases.RUNS.items()}
    data = {f"{key}.data": run.split()[1] for key, run in cases.RUNS.items()}
    for key, value in {**data, **fields}.items():
        case = case.replace(f"{{{key}}}", value)
    written = re.search(r"(out\.txt|\w+\.png|averaged|exported)", case)
    target = Path(tempfile.mkdtemp(dir=".")) / (written[0] if written else "none")
    code, text, _ = call_spellings(case.replace(target.name, str(target)))
    text = VARIES.sub("#", text.replace(str(target.parent), "").replace(os.getcwd(), ""))
    found: dict[str, object] = {"code": code, "text": re.sub(r"[ \t#]+", " ", text).split("\n")}
    if target.suffix == ".txt" and target.is_file():
        found["file"] = hashlib.sha256(target.read_bytes()).hexdigest()[:16]
    elif target.suffix == ".png":
        found["file"] = target.is_file() and target.stat().st_size > 5000
    elif target.is_dir():
        found["file"] = digest_weights(next(target.glob("model.safetensors")))
    return found


def folder_of(case: str) -> str:
    return "run." + re.sub(r"[^\w.]+", "_", case)


def list_trainings() -> list[str]:
    """Every architecture with every task and its data, then the variants."""
    grid = [
        f"{task} {data} {arch}"
        for task, folders in cases.TASKS.items()
        for data in folders
        for arch in cases.ARCHITECTURES
    ]
    return [*grid, *[it for it in cases.RUNS.values() if it not in grid], *cases.VARIANTS]


def prepare_data() -> None:
    """The data folders, in the current folder."""
    cases.write_inputs(Path())
    for name, words in cases.DATA.items():
        code, _, err = call(["preprocess", *words.split(), "--destdir", name, "--workers", "1"])
        assert code == 0, f"preprocess {name}: {err}"
    import torch

    torch.set_num_threads(1)


def train_compiled(text: str) -> int:
    """Compare the losses of compiled trainings whose names contain a text; the number that differ.

    Those that are refused, such as a translation with an encoder, must be refused again.
    """
    old, differing = json.loads(RECORD.read_text()), 0
    for case in list_trainings():
        if text in case:
            new, record = train(case, "--compile"), old[f"train {case}"]
            difference = compare(record, {**record, **new}, exact=False)
            differing += difference > 1e-4
            print(f"{case}: {new.get('code', '')} {difference:g}", flush=True)
    return differing


def run_tree() -> dict[str, object]:
    """All answers of the tree that this process imports, in the current folder."""
    prepare_data()
    record: dict[str, object] = {}
    import toolkit.training.run  # noqa: F401  imported once, before the processes fork

    with ProcessPoolExecutor(2, multiprocessing.get_context("fork")) as pool:
        trainings = list_trainings()
        done = pool.map(train, trainings)
        record |= {f"train {case}": it for case, it in zip(trainings, done, strict=True)}
        record |= dict(zip(cases.OUTPUTS, pool.map(output, cases.OUTPUTS), strict=True))
    record["help lines"] = {name: count_help(name) for name in COMMANDS}
    return record


COMMANDS = (
    *("preprocess", "train", "validate", "predict", "generate", "average"),
    *("inspect", "plot", "convert"),
)


def count_help(command: str) -> list[int]:
    """Lines of --help and of --help-all; to be read, not to be compared."""
    return [len(call([command, flag])[1].splitlines()) for flag in ("--help", "--help-all")]


def describe_machine() -> list[str]:
    import torch

    cpu = re.findall(r"^(?:cpu family|model)\t: (.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return [
        torch.__version__,
        platform.machine(),
        torch.backends.cpu.get_cpu_capability(),
        *cpu[:2],
    ]


def compare(old: object, new: object, *, exact: bool) -> float:
    """The largest relative difference of two answers; infinite if they differ in kind."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = old.keys() | new.keys() if exact else (old.keys() | new.keys()) - {"text", "file"}
        return max((compare(old.get(k), new.get(k), exact=exact) for k in keys), default=0.0)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = zip(old, new, strict=True)
        return max((compare(a, b, exact=exact) for a, b in pairs), default=0.0)
    if old == new or (not exact and isinstance(old, str) and isinstance(new, str)):
        return 0.0
    numbers = all(isinstance(it, int | float) for it in (old, new))
    return abs(old - new) / max(abs(old), 1e-12) if numbers else math.inf  # type: ignore[operator]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--cases", default="", help="text that names of compiled cases contain")
    parser.add_argument("--in-process", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.in_process and args.compile:
        prepare_data()
        return 1 if train_compiled(args.cases) else 0
    if args.in_process:
        answers = {"machine": describe_machine(), **run_tree()}
        args.in_process.write_text(json.dumps(answers))
        return 0
    tree = args.tree.resolve()
    environment = {**os.environ, "PYTHONPATH": str(tree), "FROZEN_TREE": str(tree)}
    environment |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100", "MPLBACKEND": "agg"}
    with tempfile.TemporaryDirectory() as folder:
        script, out = str(Path(__file__).resolve()), Path(folder) / "answers.json"
        command = [sys.executable, script, "--in-process", str(out)]
        if args.compile:
            command += ["--compile", "--cases", args.cases]
            return subprocess.run(command, env=environment, cwd=folder).returncode
        subprocess.run(command, check=True, env=environment, cwd=folder)
        new = json.loads(out.read_text())
    if args.record:
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in new.items()]
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"{len(new) - 2} answers recorded")
        return 0
    old = json.loads(RECORD.read_text())
    exact = old["machine"] == new["machine"]
    limit, differing = 0.0 if exact else 1e-4, 0
    keys = [key for key in old.keys() | new.keys() if key not in ("machine", "help lines")]
    differences = {key: compare(old.get(key), new.get(key), exact=exact) for key in sorted(keys)}
    for key, difference in differences.items():
        if difference > limit:
            differing += 1
            print(f"{key}: {difference:g}")
            for name, record in (("old", old), ("new", new)):
                print(f"  {name}: {str(record.get(key))[:1500]}")
    print(f"help lines, old: {old['help lines']}\nhelp lines, new: {new['help lines']}")
    print(
        f"{len(keys)} answers, {'exact' if exact else f'to {limit:g}: another machine'}: "
        f"{differing} differ, largest difference {max(differences.values()):g}"
    )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
