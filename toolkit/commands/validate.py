"""toolkit-validate: several checkpoints on several splits, as a table and as JSON."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from toolkit.checkpoints.compatibility import refuse_unsuited
from toolkit.checkpoints.load import find, load_checkpoint, read_config
from toolkit.common import json_files
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import CRITERIA
from toolkit.config.commands.validate import ValidateConfig
from toolkit.config.sections import DataConfig
from toolkit.data.storage.corpora import Corpora
from toolkit.distributed import World, launch
from toolkit.optim.precision import Precision, resolve
from toolkit.reporting.json_output import Output
from toolkit.reporting.progress import Work
from toolkit.tasks.predictions import Answers
from toolkit.tasks.task import Learner
from toolkit.training.data import names, remark_on, split_of, suited
from toolkit.training.evaluation import validate
from toolkit.training.step import Figures
from toolkit.training.summary import print_figures


def evaluate(config: ValidateConfig) -> dict[str, dict[str, Figures]]:
    """Checkpoint -> split -> figures; every example of a split is seen exactly once."""
    with launch(config.device) as world, Output(config.json if world.first else None) as output:
        corpora = Corpora.open(*config.folders)
        found: dict[str, dict[str, Figures]] = {}
        answers: Answers | None = None
        for path in config.path:
            found[path], answers = figures_of(path, corpora, config, world, output)
        if world.first:
            report(found, config, output)
            if config.predictions and answers:  # last: figures outlive a file that cannot be
                answers.write(Path(config.predictions))
                told(f"wrote {config.predictions}", output)
        return found


def figures_of(
    path: str, corpora: Corpora, config: ValidateConfig, world: World, output: Output
) -> tuple[dict[str, Figures], Answers | None]:
    """One checkpoint's figures on every split, and what it answered to the last one."""
    checkpoint = find(Path(path))
    run, _ = read_config(checkpoint)
    learner = load_checkpoint(checkpoint, weights=config.weights).to(world.device)
    refuse_unsuited(corpora.codec, str(corpora.path), learner.codec, path)
    data = DataConfig(
        max_tokens_valid=config.max_tokens,
        batch_size_valid=config.batch_size,
        num_workers=config.num_workers,
    )
    found, answers = {}, None
    for name in names(config.valid_subset):
        split = split_of(
            name,
            corpora.having(name),
            suited(run.task, run.arch),
            data,
            world=world,
            seed=run.data.evaluation_seed,
            training=False,
        )
        examples, answers = len(split.examples.lengths), learner.task.answers(split.examples)
        refuse_no_answers(answers, config, learner)
        if world.first and (remark := remark_on(split.examples)):
            told(f"{path} {name}: {remark}", output)
        mine = -(-examples // world.size)  # what the first rank is told of, nearly
        work = Work(f"{name} of {path}", mine, "examples", quiet=not world.first)
        with closing(split.loader), work:
            found[name] = validate(
                learner,
                CRITERIA[run.criterion.name].build(run.criterion.config),
                split.loader,
                examples=examples,
                world=world,
                precision=Precision(resolve(config.precision, world.device), world.device),
                told=work.advance,
                answers=answers,
            )
        if answers and world.first:
            details(answers, {"checkpoint": path, "subset": name}, config, output)
    return found, answers


def details(answers: Answers, of: dict[str, str], config: ValidateConfig, output: Output) -> None:
    """What a task tells of its single answers; of which checkpoint and split, where several are."""
    for event, values in answers.events():
        output.write(event, {**of, **values})
    tables = answers.tables()
    if tables and len(config.path) * len(names(config.valid_subset)) > 1:
        told(" ".join(of.values()), output)
    for table in tables:
        table.print(output.terminal)


def told(line: str, output: Output) -> None:
    output.terminal.print(line, highlight=False, markup=False, soft_wrap=True)


def refuse_no_answers(answers: Answers | None, config: ValidateConfig, learner: Learner) -> None:
    if config.predictions and answers is None:
        raise ToolkitError(
            f"predictions must come from a task that fills in files, such as pos_tagging, but this "
            f"checkpoint's is {type(learner.task).__name__}. Leave --predictions out."
        )


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
        text = json_files.dumps(found, indent=1) + "\n"
        try:
            Path(config.results_path).write_text(text, "utf-8")
        except OSError as error:
            raise ToolkitError(
                f"results_path must be a file that can be written, but {config.results_path} is "
                f"not: {error.strerror}. Choose another with --results-path."
            ) from None
