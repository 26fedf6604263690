"""What every test may use: the repository, ranks, a small run, real data where they are at hand.

The toolkit is imported inside the fixtures: pytest reads this file before it installs the hook that
checks shapes.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import socket
import traceback
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # forks of a process with OpenMP threads hang
gc.disable()  # until all modules are loaded, which takes a tenth less time


def pytest_collection_finish() -> None:
    """What is loaded stays to the end: the garbage collector need not look at it again."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Libraries report what is not collected at the end."""
    gc.unfreeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip GPU tests without a GPU, unless Triton's interpreter replaces it."""
    if item.get_closest_marker("gpu") and os.environ.get("TRITON_INTERPRET") != "1":
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with real corpora; a test that needs one of them is skipped without it."""
    named = os.environ.get("TOOLKIT_DATA")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; TOOLKIT_DATA names the folder that holds it")
    return folder


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


def as_rank(function, rank, size, port, answers):
    import torch

    from toolkit.distributed import launch

    torch.set_num_threads(1)
    os.environ |= {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": f"{size}"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    try:
        with launch("cpu") as world:
            answers.put((rank, function(world), None))
    except BaseException:
        answers.put((rank, None, traceback.format_exc()))


@pytest.fixture(scope="session")
def imported():
    """What every forked rank would otherwise import anew, which takes longer than its work."""
    import torch._dynamo  # noqa: F401

    import toolkit.training.run  # noqa: F401
    from toolkit import build_model
    from toolkit.config.load import compose

    build_model("composite_bert_tiny", vocabulary_size=40, task="mlm")
    compose({"arch": "composite_bert_tiny", "task": "mlm", "data.dirs": ["nowhere"]})


@pytest.fixture
def ranks(imported):
    """Calls a function of a World in so many processes; gives their answers, plain data."""

    def call(function, size=2):
        context = multiprocessing.get_context("fork")
        answers, port = context.Queue(), free_port()
        processes = [
            context.Process(target=as_rank, args=(function, rank, size, port, answers), daemon=True)
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        found = sorted((answers.get(timeout=60) for _ in processes), key=lambda answer: answer[0])
        for process in processes:
            process.join(timeout=30)
        errors = [error for *_, error in found if error]
        assert not errors, errors[0]
        return [value for _, value, _ in found]

    return call


WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "how", "dogs", "run", "far"]


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A data folder of 38 training and 9 validation examples of a few words each."""
    import torch

    from tests.helpers.preprocessing import preprocess_config
    from toolkit.data.preprocess import preprocess

    folder = tmp_path_factory.mktemp("data")
    for name, lines in (("train", 76), ("valid", 18)):
        random = torch.Generator().manual_seed(lines)
        draws = torch.randint(len(WORDS), (lines, 9), generator=random).tolist()
        text = "\n".join(" ".join(WORDS[i] for i in row[: 4 + row[0] % 6]) for row in draws)
        (folder / f"{name}.txt").write_text(text + "\n")
    preprocess(
        preprocess_config(
            trainpref=str(folder / "train.txt"),
            validpref=str(folder / "valid.txt"),
            destdir=str(folder / "bin"),
            vocab_size=40,
            workers=1,
        )
    )
    return folder / "bin"


@pytest.fixture(scope="session")
def parallel(tmp_path_factory):
    """A data folder of 37 training and 9 validation pairs: words, and the same ones backwards."""
    import torch

    from tests.helpers.preprocessing import preprocess_config
    from toolkit.data.preprocess import preprocess

    folder = tmp_path_factory.mktemp("parallel")
    for name, lines in (("train", 37), ("valid", 9)):
        random = torch.Generator().manual_seed(lines)
        draws = torch.randint(len(WORDS), (lines, 9), generator=random).tolist()
        sentences = [[WORDS[i] for i in row[: 2 + row[0] % 6]] for row in draws]
        for language, step in (("xx", 1), ("yy", -1)):
            text = "\n".join(" ".join(words[::step]) for words in sentences)
            (folder / f"{name}.{language}").write_text(text + "\n")
    preprocess(
        preprocess_config(
            trainpref=str(folder / "train"),
            validpref=str(folder / "valid"),
            source_lang="xx",
            target_lang="yy",
            tokenizer="words",
            joined_dictionary=True,
            destdir=str(folder / "bin"),
            workers=1,
        )
    )
    return folder / "bin"


def small_run(data, save_dir, options):
    """Two epochs of five updates, unless options say otherwise."""
    from toolkit.config.load import compose

    options = {key.replace("__", "."): value for key, value in options.items()}
    shape = {"arch.layers": 1, "arch.width": 16, "arch.heads": 2, "arch.embedding_width": 8}
    return compose(
        {
            "arch": "composite_bert_tiny",
            **shape,
            "task": "mlm",
            "data.dirs": [str(data)],
            "data.batch_size": 8,
            "data.num_workers": 0,
            "training.max_epoch": 2,
            "training.precision": "fp32",
            "logging.progress": "lines",
            "checkpoint.save_dir": str(save_dir),
            **options,
        }
    )


@pytest.fixture
def config(data, tmp_path):
    """Makes the configuration of a small run in tmp_path/run."""
    return lambda **options: small_run(data, tmp_path / "run", options)


@pytest.fixture(scope="session")
def finished(data, tmp_path_factory):
    """The save folder of a small run that ended: checkpoints behind updates 5 and 10."""
    from toolkit.training.run import run

    folder = tmp_path_factory.mktemp("finished") / "run"
    run(small_run(data, folder, {}))
    return folder


@pytest.fixture
def trained(finished, tmp_path):
    """A copy of that folder, to do to what a test likes: tmp_path/run."""
    return shutil.copytree(finished, tmp_path / "run", symlinks=True)


@pytest.fixture
def in_process():
    """Calls a function in a process of its own; gives its exit code, or minus a signal's number."""

    def call(function, *arguments):
        process = multiprocessing.get_context("fork").Process(target=function, args=arguments)
        process.start()
        process.join(timeout=120)
        assert process.exitcode is not None, "it did not end"
        return process.exitcode

    return call


CLOCKS = {"seconds", "tokens_per_second", "updates_per_second", "data_wait_rate", "mfu"}
CLOCKS |= {"peak_memory_gib", "since_report_seconds"}


def without_clocks(value):
    if isinstance(value, dict):
        return {k: without_clocks(v) for k, v in value.items() if k not in CLOCKS}
    return value


@pytest.fixture
def end_of():
    """Everything that must be equal at the end of two runs: tensors as bytes, and figures.

    What clocks measure is left out, and reports between the seventh updates: a run that is cut
    gives one more.
    """
    from toolkit.common import json_files

    def end(folder):
        last = folder / "checkpoint_last"
        tensors = {file.name: file.read_bytes() for file in last.glob("*.safetensors")}
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        records = [without_clocks(json_files.loads(line)) for line in lines]
        state = without_clocks(json_files.loads((last / "state.json").read_text()))
        final = state["progress"]["update"]
        train = [r for r in records if r["event"] == "train"]
        valid = [r for r in records if r["event"] == "valid"]
        return (
            tensors,
            [r for r in train if not r["update"] % 7 or r["update"] == final],
            valid,
            state,
        )

    return end


@pytest.fixture
def stopped():
    """Trains from one update, if it is named, until another, as a signal would have it."""
    from toolkit.distributed import World
    from toolkit.training.run import TrainingRun

    def stop(config, at=None, world=None, since=None):
        training = TrainingRun(config, world or World())
        assert since in (None, training.trainer.progress.update), "where it went on from"

        def advance(step):
            if step.update == at:
                training.trainer.request_stop()

        training.advance_progress_bar = advance
        try:
            training.fit()
        finally:
            training.close()
        assert at in (None, training.trainer.progress.update)

    return stop


@pytest.fixture
def resumes_exactly(config, tmp_path, stopped, end_of):
    """Stops a run behind an update and resumes it: it ends as one that was never stopped."""
    from toolkit.training.run import run

    def check(at, options, make=config, since=None):
        whole, cut = (
            make(**{"log_interval": 7, **options, "save_dir": str(tmp_path / name)})
            for name in ("whole", "cut")
        )
        run(whole)
        stopped(cut, at, since=since)
        stopped(cut, since=at)
        assert end_of(tmp_path / "cut") == end_of(tmp_path / "whole")

    return check


@pytest.fixture
def same_on_two_ranks(config, tmp_path, ranks):
    """Trains without dropout in one process and on two ranks: the validation losses are equal."""
    from toolkit.distributed import World
    from toolkit.training.run import TrainingRun

    def check(options, make=config, shardings=("none", "full"), figures=lambda _: []):
        def train(world, name, **more):
            still = {"arch.dropout": 0.0, "arch.attention_dropout": 0.0, "batch_size": 4}
            folder = {"save_dir": str(tmp_path / name)}
            training = TrainingRun(make(**{**still, **options, **folder, **more}), world)
            try:
                training.fit()
                latest = training.validation.latest["valid"]
                losses = [value for name, value in sorted(latest.items()) if "loss" in name]
                return [*losses, *figures(training)]
            finally:
                training.close()

        alone = train(World(), "alone", update_freq=2)
        for sharding in shardings:
            for found in ranks(lambda world, how=sharding: train(world, how, sharding=how)):
                assert found == pytest.approx(alone, rel=1e-4)
        return alone

    return check


@pytest.fixture
def byte_level():
    """Pieces of bytes, as GPT-2's: a, b, c and full stops, where Ġb is b with the space before."""
    tokenizers = pytest.importorskip("tokenizers")

    from toolkit.data.tokenizers.huggingface import HuggingFaceTokenizer

    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    symbols = [*special, *"abc.", "Ġ", "Ġb", "Ġc"]
    index = {symbol: number for number, symbol in enumerate(symbols)}
    given = tokenizers.Tokenizer(tokenizers.models.BPE(index, [("Ġ", "b"), ("Ġ", "c")]))
    given.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    given.decoder = tokenizers.decoders.ByteLevel()
    given.add_special_tokens(special)
    roles = {"cls": 0, "pad": 1, "sep": 2, "unk": 3, "mask": 4}
    return HuggingFaceTokenizer(given.to_str(), roles)
