"""Options of Hugging Face Transformers."""

from __future__ import annotations

from toolkit.common.other_tools.counterpart import ABSENT, CLASSES, EACH_EPOCH, TORCHRUN, use

RANK_EXAMPLES = "It is the number of examples on each rank."
FRACTION = "A fraction of the run is --warmup-fraction."
RESUMES = "The same command resumes the latest checkpoint in --save-dir."
CONVERT = "toolkit-convert import makes a checkpoint of a model of Transformers."
NO_UPLOAD = "Nothing is uploaded. toolkit-convert export writes a folder for Transformers."
COLUMNS = "toolkit-preprocess names them: --text-field, --text-columns and --label-column."
RAW_DATA = "toolkit-preprocess reads the files: --trainpref, --validpref and --testpref."

WITHOUT_COUNTERPART = [
    "eval_on_start",
    "max_time",
    "max_train_samples",
    "neftune_noise_alpha",
    "penalty_alpha",
    "remove_unused_columns",
    "repetition_penalty",
    "use_liger_kernel",
]

TRANSFORMERS = {
    # TrainingArguments
    "output_dir": use("save_dir", "destdir", "output", "results_path"),
    "overwrite_output_dir": use(
        "overwrite", otherwise="To start again, choose another --save-dir."
    ),
    "per_device_train_batch_size": use("batch_size", note=RANK_EXAMPLES),
    "per_gpu_train_batch_size": use("batch_size", note=RANK_EXAMPLES),
    "train_batch_size": use("batch_size", note=RANK_EXAMPLES),
    "per_device_eval_batch_size": use("batch_size_valid", "batch_size"),
    "per_gpu_eval_batch_size": use("batch_size_valid", "batch_size"),
    "eval_batch_size": use("batch_size_valid", "batch_size"),
    "auto_find_batch_size": use(otherwise="Batches that do not fit into memory are split."),
    "gradient_accumulation_steps": use("update_freq"),
    "num_train_epochs": use("max_epoch"),
    "max_steps": use("max_update"),
    "learning_rate": use("lr"),
    "lr_scheduler_type": use("lr_scheduler", note="constant_with_warmup is fixed."),
    "lr_scheduler_kwargs": use(otherwise="Options of a scheduler are --lr-scheduler.NAME."),
    "warmup_steps": use("warmup_updates", note=FRACTION),
    "warmup_ratio": use("warmup_fraction"),
    "num_warmup_steps": use("warmup_updates", note=FRACTION),
    "optim": use("optimizer", note="adamw_torch is adamw."),
    "optim_args": use(otherwise="Options of an optimizer are --optimizer.NAME."),
    "adam_beta1": use("beta1"),
    "adam_beta2": use("beta2"),
    "adam_epsilon": use("eps"),
    "adafactor": use("optimizer adafactor"),
    "max_grad_norm": use("clip_norm"),
    "label_smoothing_factor": use("label_smoothing"),
    "tf32": use("precision tf32"),
    "bf16_full_eval": use("precision bf16"),
    "fp16_full_eval": use("precision fp16"),
    "half_precision_backend": use("precision"),
    "mixed_precision": use("precision"),
    "fp16_opt_level": use("precision fp16"),
    "gradient_checkpointing": use("checkpoint_activations"),
    "activation_checkpointing": use("checkpoint_activations"),
    "torch_compile": use("compile"),
    "logging_steps": use("log_interval"),
    "logging_dir": use("tensorboard_logdir"),
    "disable_tqdm": use("progress lines"),
    "report_to": use("tensorboard_logdir", note="For Weights & Biases: --wandb-project."),
    "run_name": use("save_dir", note="The name of the folder is the name of the run."),
    "project": use("wandb_project"),
    "eval_strategy": use("validate_interval_updates", note=EACH_EPOCH),
    "evaluation_strategy": use("validate_interval_updates", note=EACH_EPOCH),
    "evaluate_during_training": use("validate_interval_updates", note=EACH_EPOCH),
    "eval_steps": use("validate_interval_updates", note=EACH_EPOCH),
    "save_strategy": use("save_interval_updates", note=EACH_EPOCH),
    "save_steps": use("save_interval_updates", note=EACH_EPOCH),
    "checkpointing_steps": use("save_interval_updates", note=EACH_EPOCH),
    "save_total_limit": use("keep_last_epochs", note="Between epochs: --keep-interval-updates."),
    "load_best_model_at_end": use(
        otherwise="The best checkpoint is always kept, as checkpoint_best."
    ),
    "metric_for_best_model": use("best_metric"),
    "greater_is_better": use("best_metric", note="Each metric knows its direction."),
    "early_stopping_patience": use("patience"),
    "resume_from_checkpoint": use("restore_file", note=RESUMES),
    "data_seed": use("seed"),
    "use_cpu": use("device cpu"),
    "no_cuda": use("device cpu"),
    "use_mps_device": use("device mps"),
    "dataloader_num_workers": use("num_workers"),
    "ddp_timeout": use("training.timeout_seconds"),
    "local_rank": use(otherwise=TORCHRUN),
    "num_processes": use(otherwise=TORCHRUN),
    "fsdp": use("sharding full"),
    "fsdp_config": use("sharding full"),
    "deepspeed": use("sharding full"),
    "do_train": use(otherwise="toolkit-train trains, toolkit-validate evaluates."),
    "do_eval": use(otherwise="toolkit-train validates every epoch; toolkit-validate evaluates."),
    "do_predict": use("predictions", otherwise="toolkit-predict answers raw text."),
    "push_to_hub": use(otherwise=NO_UPLOAD),
    "hub_model_id": use(otherwise=NO_UPLOAD),
    "predict_with_generate": use("validation_beam"),
    "generation_num_beams": use("validation_beam"),
    "group_by_length": use(otherwise="Batches always hold examples of similar length."),
    "pad_to_max_length": use(otherwise="Batches are padded to their longest example."),
    "num_labels": use(otherwise=CLASSES),
    # models and data of the example scripts
    "model_name_or_path": use("finetune_from", "path", note=CONVERT),
    "model": use("arch", "path"),
    "model_type": use("arch"),
    "config_name": use("arch"),
    "tokenizer_name": use(
        "tokenizer_from", otherwise="toolkit-preprocess --tokenizer-from names it."
    ),
    "train_file": use("trainpref", otherwise=RAW_DATA),
    "validation_file": use("validpref", otherwise=RAW_DATA),
    "test_file": use("testpref", otherwise=RAW_DATA),
    "dataset_name": use("trainpref", note="It reads folders of save_to_disk.", otherwise=RAW_DATA),
    "validation_split_percentage": use("valid_fraction", note="It is a fraction, such as 0.05."),
    "preprocessing_num_workers": use("workers"),
    "text_column_name": use("text_field", "text_columns", otherwise=COLUMNS),
    "text_column_names": use("text_columns", otherwise=COLUMNS),
    "label_column_name": use("label_column", otherwise=COLUMNS),
    "line_by_line": use(
        "segment_by lines", otherwise="toolkit-preprocess --segment-by lines is the default."
    ),
    "task_name": use(
        "glue_task", otherwise="toolkit-preprocess --glue-task names the task of the data."
    ),
    "max_seq_length": use("tokens_per_sample", "max_item_tokens"),
    "max_length": use("tokens_per_sample", "max_len_b"),
    "max_source_length": use("tokens_per_sample"),
    "max_target_length": use("tokens_per_sample"),
    "block_size": use("tokens_per_sample"),
    "mlm_probability": use("mask_rate"),
    "doc_stride": use("stride"),
    "max_query_length": use("question_tokens"),
    "max_answer_length": use("answer_tokens"),
    "n_best_size": use("nbest"),
    "model_max_length": use("tokens_per_sample"),
    "whole_word_mask": use("masking whole_word"),
    "do_lower_case": use("lowercase", note="It also strips accents."),
    # models
    "hidden_size": use("width"),
    "num_hidden_layers": use("layers"),
    "num_attention_heads": use("heads"),
    "intermediate_size": use("feed_forward_width"),
    "embedding_size": use("embedding_width"),
    "max_position_embeddings": use("max_positions"),
    "hidden_dropout_prob": use("dropout"),
    "attention_probs_dropout_prob": use("attention_dropout"),
    "layer_norm_eps": use("norm_epsilon"),
    "type_vocab_size": use("token_types"),
    "local_attention": use("attention_window"),
    "global_attn_every_n_layers": use("global_every"),
    "local_rope_theta": use("local_rope_base"),
    "tie_word_embeddings": use("share_embeddings"),
    "conv_kernel_size": use("kernel_size"),
    "num_groups": use("groups"),
    "classifier_dropout": use("head_dropout"),
    "min_frequency": use("min_count"),
    "problem_type": use(
        "label_type number", note="It is regression. Several labels per text do not exist."
    ),
    # generate
    "num_beams": use("beam"),
    "num_return_sequences": use("nbest"),
    "length_penalty": use("lenpen"),
    "do_sample": use("sampling"),
    "top_k": use("sampling_topk", "top"),
    "top_p": use("sampling_topp"),
    "max_new_tokens": use("max_len_b"),
    "min_length": use("min_len"),
    "min_new_tokens": use("min_len"),
    "num_beam_groups": use("diverse_beam_groups"),
    "diversity_penalty": use("diverse_beam_strength"),
    "output_scores": use("results_path", note="It has the score of each hypothesis."),
    "early_stopping": use(
        otherwise="A sentence ends when as many hypotheses as the beam size are finished."
    ),
    "input_file": use("input", "trainpref"),
    "output_file": use("output", "results_path", "destdir"),
    "prompt": use("input", note="It is a file with a prompt in each line."),
    "average_tokens_across_devices": use(
        otherwise="Always. Losses are divided by the predictions of all ranks."
    ),
    "dataloader_drop_last": use(otherwise="Every example is used."),
    "full_determinism": use(otherwise="On a CPU, runs are always deterministic."),
    "ignore_data_skip": use(otherwise="Resuming skips what was read without reading it again."),
    "ignore_mismatched_sizes": use("finetune_from", note="It reports tensors that do not fit."),
    "train_sampling_strategy": use(otherwise="Batches always hold examples of similar length."),
    **dict.fromkeys(WITHOUT_COUNTERPART, ABSENT),
}
