"""toolkit-validate: several checkpoints on several splits, as a table and as JSON."""

from __future__ import annotations

from pathlib import Path

from toolkit.common import strict_json
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CRITERIA
from toolkit.config.sections import DataConfig
from toolkit.config.validate import ValidateConfig
from toolkit.data.shards import Corpora
from toolkit.distributed import World, launch
from toolkit.metrics.output import Output
from toolkit.metrics.progress import Work
from toolkit.optim.precision import Precision, resolve
from toolkit.training.checkpoint import find, load_checkpoint, read_config
from toolkit.training.data import names, split_of
from toolkit.training.report import print_figures
from toolkit.training.step import Figures
from toolkit.training.validate import validate


def evaluate(config: ValidateConfig) -> dict[str, dict[str, Figures]]:
    """Checkpoint -> split -> figures; every example of a split is seen exactly once."""
    with launch(config.device) as world, Output(config.json if world.first else None) as output:
        corpora = Corpora.open(*config.folders)
        found = {path: figures_of(path, corpora, config, world) for path in config.path}
        if world.first:
            report(found, config, output)
        return found


def figures_of(
    path: str, corpora: Corpora, config: ValidateConfig, world: World
) -> dict[str, Figures]:
    """One checkpoint's figures on every split."""
    checkpoint = find(Path(path))
    run, _ = read_config(checkpoint)
    learner = load_checkpoint(checkpoint, weights=config.weights).to(world.device)
    if learner.codec.vocabulary.fingerprint != corpora.vocabulary.fingerprint:
        raise ToolkitError(
            f"the data must have the vocabulary of the checkpoint, but that of {corpora.path} "
            f"differs from that of {path}. Run toolkit-preprocess with --codec-from that "
            f"checkpoint."
        )
    data = DataConfig(
        max_tokens=config.max_tokens, batch_size=config.batch_size, num_workers=config.num_workers
    )
    found = {}
    for name in names(config.valid_subset):
        split = split_of(
            name,
            corpora.having(name),
            run.task,
            data,
            world=world,
            seed=run.data.evaluation_seed,
            training=False,
        )
        examples = len(split.examples.lengths)
        mine = -(-examples // world.size)  # what the first rank is told of, nearly
        with Work(f"{name} of {path}", mine, "examples", quiet=not world.first) as work:
            found[name] = validate(
                learner,
                CRITERIA[run.criterion.name].build(run.criterion.config),
                split.loader,
                examples=examples,
                world=world,
                precision=Precision(resolve(config.precision, world.device), world.device),
                told=work.advance,
            )
        split.loader.close()
    return found


def report(found: dict[str, dict[str, Figures]], config: ValidateConfig, output: Output) -> None:
    """The table for people, and JSON where it was asked for."""
    for path, subsets in found.items():
        for subset, figures in subsets.items():
            output.write("valid", {"checkpoint": path, "subset": subset, **figures})
    rows = {
        f"{path} {subset}": figures
        for path, subsets in found.items()
        for subset, figures in subsets.items()
    }
    print_figures({"checkpoint and split": rows}, output.terminal)
    if config.results_path:
        text = strict_json.dumps(found, indent=1) + "\n"
        try:
            Path(config.results_path).write_text(text, "utf-8")
        except OSError as error:
            raise ToolkitError(
                f"results_path must be a file that can be written, but {config.results_path} is "
                f"not: {error.strerror}. Choose another with --results-path."
            ) from None
