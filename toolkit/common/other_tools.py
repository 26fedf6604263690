"""Names in Hugging Face Transformers and fairseq, and what to write here, for error messages."""

from __future__ import annotations

from typing import NamedTuple


class Counterpart(NamedTuple):
    """Options to write instead; a command suggests the first one that it has."""

    options: tuple[str, ...]
    """Name of each, with a value if it replaces a switch: "precision tf32"."""
    note: str = ""
    """Sentence after that suggestion."""
    otherwise: str = ""
    """Sentence if the command has none of the options."""


def use(*options: str, note: str = "", otherwise: str = "") -> Counterpart:
    """The options to write in place of another tool's option."""
    return Counterpart(options, note, otherwise)


EACH_EPOCH = "Every epoch also ends with a validation and a checkpoint."
RANK_EXAMPLES = "It is the number of examples on each rank."
FRACTION = "A fraction of the run is --warmup-fraction."
RESUMES = "The same command resumes the latest checkpoint in --save-dir."
TORCHRUN = "Start the command with torchrun, which sets the number of processes."
CONVERT = "toolkit-convert --to toolkit makes a checkpoint of a model of Transformers."
LANGUAGES = "The languages of a checkpoint are those that it was trained on."
SUBWORDS = (
    "SentencePiece and WordPiece subwords are always joined. For those of subword-nmt, use "
    "sed 's/@@ //g'."
)
NO_UPLOAD = "Nothing is uploaded. toolkit-convert --to hf writes a folder for Transformers."
COLUMNS = "toolkit-preprocess names them: --text-field, --text-columns and --label-column."
CLASSES = "The classes are those of the data folder."
RAW_DATA = "toolkit-preprocess reads the files: --trainpref, --validpref and --testpref."

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
}

FAIRSEQ = {
    "source_lang": use(otherwise=LANGUAGES),
    "target_lang": use(otherwise=LANGUAGES),
    "max_sentences": use("batch_size"),
    "max_sentences_valid": use("batch_size_valid", "batch_size"),
    "cpu": use("device cpu"),
    "amp": use("precision fp16"),
    "memory_efficient_fp16": use("precision fp16"),
    "memory_efficient_bf16": use("precision bf16"),
    "no_progress_bar": use("progress lines"),
    "log_format": use("progress", note="The save folder has a log as JSON lines."),
    "log_file": use(otherwise="The save folder has a log as JSON lines."),
    "fixed_validation_seed": use("evaluation_seed"),
    "validate_interval": use("validate_interval_updates", note=EACH_EPOCH),
    "save_interval": use("save_interval_updates", note=EACH_EPOCH),
    "disable_validation": use("valid_subset ''"),
    "adam_betas": use("beta1", note="The second one is --beta2."),
    "adam_eps": use("eps"),
    "warmup": use("warmup_updates"),
    "end_learning_rate": use("end_rate", note="It is a fraction of --lr."),
    "min_lr": use("stop_min_lr", note="The final rate of a schedule is --end-rate."),
    "total_num_update": use("max_update", note="Schedules end with the run."),
    "max_lr": use("lr"),
    "lr_shrink": use("factor"),
    "warmup_init_lr": use(otherwise="The warm-up starts at 0."),
    "sentence_avg": use(otherwise="Losses are divided by the number of predictions."),
    "required_batch_size_multiple": use(otherwise="Every example is used."),
    "lr_patience": use("lr_scheduler.patience"),
    "best_checkpoint_metric": use("best_metric"),
    "maximize_best_checkpoint_metric": use("best_metric", note="Each metric knows its direction."),
    "finetune_from_model": use("finetune_from"),
    "reset_optimizer": use("finetune_from", note="It loads the weights alone."),
    "reset_lr_scheduler": use("finetune_from", note="It loads the weights alone."),
    "reset_dataloader": use("finetune_from", note="It loads the weights alone."),
    "reset_meters": use("finetune_from", note="It loads the weights alone."),
    "no_epoch_checkpoints": use("keep_last_epochs 1"),
    "store_ema": use("ema_decay"),
    "ddp_backend": use("sharding", note="Without it, DDP is used."),
    "zero_sharding": use("sharding full"),
    "distributed_world_size": use(otherwise=TORCHRUN),
    "distributed_port": use(otherwise=TORCHRUN),
    "distributed_init_method": use(otherwise=TORCHRUN),
    "heartbeat_timeout": use("training.timeout_seconds"),
    "sample_break_mode": use("sample_mode"),
    "break_mode": use("sample_mode"),
    "mask_prob": use("mask_rate"),
    "random_token_prob": use("random_token_rate"),
    "leave_unmasked_prob": use("mask_token_rate", note="It is the fraction that becomes [MASK]."),
    "mask_whole_words": use("masking whole_word"),
    "max_source_positions": use("tokens_per_sample"),
    "max_target_positions": use("tokens_per_sample"),
    "skip_invalid_size_inputs_valid_test": use("overlength skip"),
    "eval_bleu": use(otherwise="Every validation of --task translation reports BLEU and chrF."),
    "eval_bleu_args": use("validation_beam"),  # its beam size
    "share_all_embeddings": use("share_embeddings all"),
    "share_decoder_input_output_embed": use("share_embeddings decoder"),
    "encoder_embed_dim": use("width"),
    "decoder_embed_dim": use("width"),
    "encoder_ffn_embed_dim": use("feed_forward_width"),
    "decoder_ffn_embed_dim": use("feed_forward_width"),
    "encoder_attention_heads": use("heads"),
    "decoder_attention_heads": use("heads"),
    "encoder_normalize_before": use("pre_norm"),
    "decoder_normalize_before": use("pre_norm"),
    "activation_fn": use("activation"),
    "activation_dropout": use("dropout", note="It follows the embeddings and each sublayer."),
    "no_scale_embedding": use("scale_embedding false"),
    "num_classes": use(otherwise=CLASSES),
    "encoder_kernel_size_list": use("encoder_kernels"),
    "decoder_kernel_size_list": use("decoder_kernels"),
    "nwordssrc": use("vocab_size"),
    "nwordstgt": use("vocab_size"),
    "thresholdsrc": use("min_count"),
    "thresholdtgt": use("min_count"),
    "dataset_impl": use(otherwise="Data folders of --dataset-impl mmap are read."),
    "only_source": use(otherwise="Without --source-lang and --target-lang, text has one language."),
    "remove_bpe": use(otherwise=SUBWORDS),
    "post_process": use(otherwise=SUBWORDS),
    "sacrebleu": use(otherwise="Scores are always computed with sacreBLEU."),
    "unnormalized": use("lenpen 0"),
    "diversity_rate": use("diverse_beam_strength"),
}

OPTIONS = {**TRANSFORMERS, **FAIRSEQ}

COMPONENTS = {
    "constant": "fixed",
    "constant_with_warmup": "fixed",
    "warmup_stable_decay": "wsd",
    "reduce_lr_on_plateau": "plateau",
    "polynomial_decay": "polynomial",
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw",
    "adamw_hf": "adamw",
    "label_smoothed_cross_entropy": "cross_entropy",
    "masked_lm": "mlm",
    "sentence_prediction": "glue",
    "sequence_classification": "glue",
    "text_classification": "glue",
    "token_classification": "pos_tagging",
    "ner": "span_tagging",
    "chunking": "span_tagging",
    "question_answering": "squad",
    "causal_lm": "language_modeling",
    "translation_from_pretrained_bart": "translation",
    "roberta_base": "bert",
    "bert_base": "bert",
    "bert_base_uncased": "bert",
    "transformer_iwslt_de_en": "transformer_iwslt",
    "transformer_wmt_en_de": "transformer",
    "transformer_wmt_en_de_big": "transformer_big",
    "transformer_vaswani_wmt_en_de_big": "transformer_big",
    "lightconv_iwslt_de_en": "lightconv_iwslt",
    "lightconv_wmt_en_de": "lightconv",
    "lightconv_wmt_en_de_big": "lightconv_big",
}
"""Name of an architecture, task, criterion, optimizer or scheduler there -> its name here."""
