import ast
import importlib.util
from pathlib import Path

import pytest

from toolkit.cli.generate import MODES
from toolkit.cli.predict import COMMAND as PREDICT
from toolkit.cli.validate import COMMAND as VALIDATE
from toolkit.common.errors import ToolkitError
from toolkit.common.registry import COMPONENTS, FORMATS, REGISTRIES, counterparts, read_other_names
from toolkit.config.commands.preprocess import PREPROCESS
from toolkit.config.commands.train import TRAIN
from toolkit.config.declared import list_options
from toolkit.config.names import RESERVED_NAMES


@pytest.mark.parametrize(
    ("section", "theirs", "ours"),
    [
        ("task", "masked_lm", "mlm"),
        ("arch", "transformer_iwslt_de_en", "transformer_iwslt"),
        ("arch", "bert-base-uncased", "bert"),
        ("lr_scheduler", "constant_with_warmup", "fixed"),
    ],
)
def test_component_of_another_tool_is_answered_with_ours(section, theirs, ours):
    with pytest.raises(ToolkitError, match=f"{theirs}'. Its name here is '{ours}'."):
        COMPONENTS[section][theirs]


def component_options() -> set[str]:
    return {
        name
        for section, registry in REGISTRIES.items()
        for component in registry.builtins
        for option in list_options(section, registry[component].config)
        for name in (option.name, option.path)
    }


def test_suggested_options_and_components_exist():
    commands = [TRAIN, PREPROCESS, VALIDATE, PREDICT, *MODES]
    known = {*RESERVED_NAMES, *component_options()}
    known |= {n for c in commands for o in c.fixed_options() for n in (o.name, o.path)}
    suggested = {o.partition(" ")[0] for c in counterparts().values() for o in c.options}
    assert suggested <= known
    ours = {name for registry in REGISTRIES.values() for name in registry.builtins}
    components = read_other_names()["components"]
    answers = [it if isinstance(it, list) else [it] for it in components.values()]
    assert {text.split()[0] for texts in answers for text in texts} <= ours
    assert not components.keys() & (ours - FORMATS.builtins.keys())


def test_answers_say_something():
    assert all(c.options or c.otherwise or c.write for c in counterparts().values())


WITHOUT_COUNTERPART = """
    accelerator_config activation_checkpointing_kwargs batch_eval_metrics dataloader_in_order
    dataloader_multiprocessing_context dataloader_persistent_workers dataloader_pin_memory
    dataloader_prefetch_factor ddp_backend ddp_broadcast_buffers ddp_bucket_cap_mb
    ddp_find_unused_parameters ddp_static_graph debug enable_jit_checkpoint
    eval_accumulation_steps eval_delay eval_do_concat_batches eval_use_gather_object
    gradient_checkpointing_kwargs hub_always_push hub_private_repo hub_revision hub_strategy
    hub_token include_for_metrics include_num_input_tokens_seen label_names length_column_name
    liger_kernel_config log_level log_level_replica log_on_each_node logging_first_step
    logging_nan_inf_filter logging_strategy optim_target_modules parallelism_config
    prediction_loss_only restore_callback_states_from_checkpoint save_on_each_node
    save_only_model skip_memory_metrics torch_compile_backend torch_compile_mode
    torch_empty_cache_steps trackio_bucket_id trackio_space_id trackio_static_space_id use_cache
"""


def training_arguments() -> set[str]:
    """Fields of the installed TrainingArguments, read without importing Transformers."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        pytest.skip("needs Transformers")
    tree = ast.parse(Path(spec.origin).with_name("training_args.py").read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    (body,) = [node.body for node in classes if node.name == "TrainingArguments"]
    return {ast.unparse(node.target) for node in body if isinstance(node, ast.AnnAssign)}


def test_training_arguments_of_transformers_are_all_answered():
    ours = {o.name for o in TRAIN.fixed_options()} | component_options() | RESERVED_NAMES.keys()
    unanswered = training_arguments() - ours - counterparts().keys()
    assert {name for name in unanswered if not name.startswith("_")} <= set(
        WITHOUT_COUNTERPART.split()
    )
