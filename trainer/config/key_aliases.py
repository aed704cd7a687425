"""The one table of other libraries' and papers' names for our keys and names, and of a key's place in the schema.

Left is ours, right is theirs. All are compared without case and separators (`folded`), so one spelling is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from trainwright.trainer.base.errors import folded
from trainwright.trainer.config.schema import TrainingConfig

KEYS = {
    "optimizer": ("optim", "opt", "optimiser", "optimizer_config"),
    "optimizer.learning_rate": ("lr", "base_lr", "max_lr", "init_lr", "initial_lr", "learning_rate_init", "alpha_lr"),
    "optimizer.weight_decay": ("wd", "l2", "l2_penalty", "weight_decay_rate"),
    "optimizer.eps": ("epsilon", "adam_epsilon"),
    "optimizer.groups": ("param_groups", "parameter_groups"),
    "loader": ("dataloader", "data_loader", "dataloaders"),
    "loader.batch_size": ("batch", "bs", "batchsize", "train_batch_size", "per_device_train_batch_size"),
    "loader.num_workers": ("workers", "n_workers", "num_worker", "dataloader_num_workers"),
    "loader.pin_memory": ("dataloader_pin_memory",),
    "loader.drop_last": ("dataloader_drop_last",),
    "loader.prefetch_factor": ("dataloader_prefetch_factor",),
    "loader.persistent_workers": ("dataloader_persistent_workers",),
    "training": ("trainer", "train", "fit", "training_args", "training_arguments"),
    "training.epochs": ("epoch", "n_epochs", "num_epochs", "max_epochs", "num_train_epochs", "nb_epochs", "max_epoch"),
    "training.max_steps": ("steps", "num_steps", "iterations", "max_iters", "max_iterations", "num_training_steps"),
    "training.clip_norm": (
        "grad_clip", "gradient_clip", "gradient_clipping", "gradient_clip_val", "clip_grad_norm", "max_grad_norm",
        "clip_grad", "grad_norm_clip", "gradient_clip_norm", "max_norm", "clip_gradients", "clipnorm",
    ),
    "training.clip_value": ("clip_grad_value", "gradient_clip_value", "clipvalue"),
    "training.accumulation_steps": (
        "gradient_accumulation_steps", "grad_accumulation_steps", "accumulate_grad_batches", "grad_accum",
        "gradient_accumulation", "accumulation", "accum_steps",
    ),
    "training.precision": ("mixed_precision", "dtype", "torch_dtype"),
    "training.compile": ("torch_compile",),
    "training.device": ("accelerator",),
    "training.validate_every_n_epochs": ("check_val_every_n_epoch", "eval_every_n_epochs", "val_every_n_epochs"),
    "training.gradient_checkpointing": ("activation_checkpointing", "checkpoint_activations"),
    "early_stopping": ("earlystopping", "early_stop", "early_stopping_callback"),
    "early_stopping.patience_epochs": ("patience", "early_stopping_patience", "early_stop_patience"),
    "early_stopping.min_delta": ("early_stopping_threshold", "early_stopping_min_delta"),
    "selection.metric": ("monitor", "metric_for_best_model", "best_metric", "monitor_metric"),
    "selection.direction": ("mode",),
    "checkpoints": ("checkpoint", "checkpointing", "model_checkpoint"),
    "checkpoints.checkpoint_every_n_epochs": ("save_every_n_epochs", "every_n_epochs", "save_every", "save_freq"),
    "checkpoints.checkpoint_every_n_steps": ("save_every_n_steps", "save_steps", "every_n_train_steps"),
    "checkpoints.save_best": ("save_best_only", "load_best_model_at_end", "keep_best"),
    "checkpoints.save_last": ("keep_last",),
    "logging.every_n_steps": ("log_every_n_steps", "logging_steps", "log_interval", "log_every"),
    "reproducibility.deterministic": ("use_deterministic_algorithms", "cudnn_deterministic"),
    "reproducibility.threads": ("num_threads", "cpu_threads"),
    "distributed.processes": ("world_size", "num_processes", "nproc_per_node", "num_gpus", "gpus", "n_gpus", "devices"),
    "data": ("dataset", "datasource", "data_source", "datamodule"),
    "data.split": ("splits",),
    "data.split.validation": ("val_split", "validation_split", "val_size", "valid_size", "validation_size",
                              "val_fraction", "validation_fraction", "val_ratio", "val", "valid", "validation_ratio"),
    "data.split.test": ("test_split", "test_size", "test_fraction", "test_ratio"),
    "data.split.seed": ("split_seed",),
    "data.split.stratify": ("stratified",),
    "data.split.by": ("split_by", "split_method", "split_strategy", "split_type"),
    "data.split.group": ("groups", "group_column", "group_key", "group_by"),
    "data.split.time": ("time_column", "date_column", "timestamp", "datetime_column"),
    "data.split.folds": ("n_splits", "k_folds", "kfold", "n_folds", "num_folds", "cv"),
    "data.args.target": ("target_column", "label_column", "label", "label_col", "y_col"),
    "data.args.features": ("feature_columns", "feature_cols", "x_cols"),
    "data.args.path": ("file", "filename", "data_path", "csv_path", "file_path", "filepath", "data_dir"),
    "data.args.delimiter": ("sep", "separator", "separator_character"),
    "data.args.series.window": ("lookback", "seq_len", "context_length", "input_chunk_length", "look_back"),
    "data.args.series.horizon": ("pred_len", "prediction_length", "output_chunk_length", "forecast_horizon"),
    "data.args.standardize": ("normalize", "standardise", "scale_features", "normalise"),
    "model": ("network", "net", "architecture", "arch"),
    "model.args.hidden": ("hidden_size", "hidden_sizes", "hidden_dims", "hidden_dim", "hidden_layers", "hidden_units",
                          "hidden_layer_sizes", "layer_sizes", "units"),
    "model.args.dropout": ("dropout_rate", "dropout_prob", "drop_rate", "dropout_p"),
    "model.args.activation": ("activation_function", "act", "nonlinearity"),
    "model.args.layers": ("n_layer", "num_layers", "n_layers", "num_hidden_layers"),
    "model.args.heads": ("n_head", "num_heads", "n_heads", "num_attention_heads"),
    "model.args.width": ("n_embd", "d_model", "embed_dim", "embedding_dim"),
    "model.args.context": ("context_length", "max_seq_len", "n_ctx", "n_positions"),
    "model.args.channels": ("filters", "num_filters", "conv_channels"),
    "loss": ("criterion", "loss_fn", "loss_function", "objective_function"),
    "loss.args.weights": ("class_weight", "class_weights", "weight"),
    "loss.args.label_smoothing": ("label_smoothing_factor",),
    "metrics": ("metric", "eval_metrics", "evaluation_metrics"),
    "seed": ("random_seed", "random_state", "manual_seed", "rng_seed"),
    "code_root": ("root", "project_root", "working_dir", "cwd"),
    "schedule": ("scheduler", "lr_scheduler", "lr_schedule", "learning_rate_schedule", "lr_scheduler_type"),
    "schedule.warmup_fraction": ("warmup_ratio", "pct_start"),
    "schedule.warmup_steps": ("num_warmup_steps", "warmup_iters", "n_warmup_steps"),
    "schedule.patience_epochs": ("patience",),
    "weight_averaging": ("averaging", "ema_config"),
    "weight_averaging.decay": ("ema_decay",),
    "adapter": ("lora", "peft", "lora_config"),
    "adapter.rank": ("r", "lora_r", "lora_rank"),
    "adapter.alpha": ("lora_alpha",),
    "adapter.dropout": ("lora_dropout",),
    "adapter.targets": ("target_modules", "lora_target_modules"),
    "adapter.train_also": ("modules_to_save",),
    "adapter.tokens": ("num_virtual_tokens",),
    "freezing.patterns": ("freeze", "frozen", "freeze_layers", "frozen_layers"),
    "deployment": ("export",),
    "deployment.formats": ("export_formats", "format"),
    "search": ("tuning", "hyperparameter_search", "hpo", "sweep", "tune"),
    "search.trials": ("n_trials", "num_trials", "num_samples", "max_trials", "budget"),
    "search.width": ("n_jobs", "parallel_trials", "max_concurrent_trials", "max_concurrent"),
    "search.method": ("sampler", "algorithm", "search_alg", "strategy_search", "search_method"),
    "search.space": ("search_space", "param_space", "parameters", "params", "hyperparameters", "param_distributions"),
    "search.pruning": ("pruner",),
    "search.guesses": ("points_to_evaluate", "initial_points", "enqueue", "enqueued", "queue", "start_points"),
    "search.confirmation_repeats": ("repeats", "confirmation_seeds", "n_repeats", "num_seeds"),
}  # fmt: skip
"""Our dotted key to its aliases: at the top, or in the section itself."""

NAMES = {
    "adamw": ("adamw_torch", "adamw_torch_fused", "adamw_hf", "torch.optim.AdamW", "optim.AdamW"),
    "adam": ("torch.optim.Adam", "optim.Adam"),
    "sgd": ("torch.optim.SGD", "optim.SGD", "sgd_momentum", "momentum_sgd"),
    "adam8bit": ("adamw_8bit", "adamw_bnb_8bit", "adam_8bit", "paged_adamw_8bit"),
    "constant": ("none", "constant_lr", "constant_with_warmup", "fixed", "flat", "off"),
    "cosine": ("CosineAnnealingLR", "cosine_annealing", "cosine_decay", "cosine_with_warmup", "cosine_schedule"),
    "linear": ("linear_decay", "linear_with_warmup", "linear_schedule"),
    "polynomial": ("PolynomialLR", "poly", "polynomial_decay"),
    "inverse_square_root": ("inverse_sqrt", "inv_sqrt", "rsqrt", "noam"),
    "one_cycle": ("OneCycleLR", "1cycle"),
    "cosine_restarts": ("CosineAnnealingWarmRestarts", "cosine_with_restarts", "cosine_warm_restarts", "sgdr"),
    "plateau": ("ReduceLROnPlateau", "reduce_on_plateau", "reduce_lr_on_plateau"),
    "warmup_stable_decay": ("wsd", "trapezoidal"),
    "cross_entropy": ("CrossEntropyLoss", "ce", "ce_loss", "xent", "nn.CrossEntropyLoss", "torch.nn.CrossEntropyLoss",
                      "categorical_crossentropy", "sparse_categorical_crossentropy", "softmax_cross_entropy"),
    "focal": ("focal_loss",),
    "bce_with_logits": ("BCEWithLogitsLoss", "nn.BCEWithLogitsLoss", "bce_logits", "binary_cross_entropy_with_logits"),
    "mse": ("MSELoss", "nn.MSELoss", "mean_squared_error", "l2_loss"),
    "mae": ("L1Loss", "nn.L1Loss", "mean_absolute_error", "l1", "l1_loss"),
    "huber": ("HuberLoss", "nn.HuberLoss", "huber_loss"),
    "dice": ("dice_loss", "dice_score", "dice_coefficient"),
    "next_token": ("causal_lm", "language_modeling", "lm_loss"),
    "masked_token": ("masked_lm", "mlm", "masked_language_modeling"),
    "accuracy": ("acc", "top1", "top_1_accuracy", "categorical_accuracy", "sparse_categorical_accuracy"),
    "balanced_accuracy": ("bal_acc", "balanced_acc"),
    "f1": ("f1_score", "f1score", "macro_f1", "f1_macro"),
    "auc": ("auroc", "roc_auc", "roc_auc_score", "rocauc"),
    "f2_binary": ("f2", "f2_score"),
    "precision_binary": ("binary_precision", "positive_predictive_value", "ppv"),
    "recall_binary": ("binary_recall", "sensitivity", "true_positive_rate", "tpr"),
    "specificity": ("true_negative_rate", "tnr"),
    "average_precision": ("pr_auc", "auprc", "auc_pr", "average_precision_score"),
    "calibration_error": ("ece", "expected_calibration_error"),
    "mrr": ("mean_reciprocal_rank", "reciprocal_rank"),
    "ndcg_at_10": ("ndcg@10", "ndcg_10"),
    "cohen_kappa": ("kappa", "cohens_kappa", "cohen_kappa_score"),
    "quadratic_kappa": ("qwk", "quadratic_weighted_kappa"),
    "mean_iou": ("miou",),
    "foreground_iou": ("iou", "jaccard", "jaccard_index"),
    "entity_f1": ("seqeval", "ner_f1", "span_level_f1", "seqeval_f1"),
    "exact_match": ("em", "squad_em"),
    "span_f1": ("squad_f1", "qa_f1", "squad"),
    "rouge_l": ("rougel", "rouge"),
    "bleu": ("sacrebleu", "bleu_4", "bleu4"),
    "wer": ("word_error_rate",),
    "cer": ("character_error_rate", "char_error_rate"),
    "mape": ("mean_absolute_percentage_error",),
    "rmse": ("root_mean_squared_error",),
    "r2": ("r2_score", "r_squared", "rsquared"),
    "smape": ("symmetric_mean_absolute_percentage_error",),
    "mase": ("mean_absolute_scaled_error",),
    "rmsle": ("root_mean_squared_log_error",),
    "quantile": ("pinball", "pinball_loss", "quantile_loss"),
    "median_absolute_error": ("medae",),
    "psnr": ("peak_signal_to_noise_ratio", "peak_signal_noise_ratio"),
    "ssim": ("structural_similarity", "structural_similarity_index_measure"),
    "concordance": ("concordance_index", "c_index"),
    "perplexity": ("ppl",),
    "bits_per_byte": ("bpb",),
    "dlinear": ("ltsf_linear", "d_linear"),
    "mlp": ("multilayer_perceptron", "feedforward", "dense", "fully_connected"),
    "ft_transformer": ("fttransformer", "feature_tokenizer_transformer", "tab_transformer", "tabular_transformer"),
    "cnn": ("convnet", "conv_net", "convolutional"),
    "transformers": ("huggingface", "hf", "hf_transformers"),
    "breast_cancer": ("load_breast_cancer", "breastcancer"),
    "digits": ("load_digits",),
    "iris": ("load_iris",),
    "wine": ("load_wine",),
    "diabetes": ("load_diabetes",),
    "images": ("image_folder", "imagefolder", "image"),
    "text": ("txt", "text_file", "text_files"),
    "csv": ("csv_file",),
    "token_classification": ("ner", "tagging", "conll", "named_entities"),
    "seq2seq": ("summarization", "translation", "text2text", "text_to_text"),
    "question_answering": ("qa", "squad", "extractive_qa"),
    "multiple_choice": ("choices", "swag", "mcq"),
    "fp32": ("float32", "float", "single", "full", "32", "32-true", "no"),
    "fp16": ("float16", "half", "16", "16-mixed", "torch.float16"),
    "bf16": ("bfloat16", "bf16-mixed", "torch.bfloat16", "bf16-true"),
    "cuda": ("gpu", "cuda:0", "nvidia"),
    "maximize": ("max", "maximise", "maximum", "up", "higher", "higher_is_better", "increase", "greater", "desc"),
    "minimize": ("min", "minimise", "minimum", "down", "lower", "lower_is_better", "decrease", "less", "asc"),
    "random": ("random_search", "random_sampler"),
    "grid": ("grid_search", "gridsearch", "grid_sampler", "exhaustive"),
    "quasi_random": ("sobol", "qmc", "qmc_sampler", "quasirandom", "halton"),
    "gaussian_process": ("gp", "gp_sampler", "gp_bo", "botorch", "skopt"),
    "cma_es": ("cmaes", "cma", "cma_es_sampler"),
    "nsga2": ("nsga", "nsga_ii", "nsgaii", "nsgaii_sampler", "nsga_ii_sampler"),
    "tpe": ("bayesian", "bayes", "optuna", "tpe_sampler"),
    "hyperband": ("asha", "hyperband_pruner"),
    "successive_halving": ("sha", "successive_halving_pruner"),
    "categorical": ("choice", "choices", "enum", "grid", "values"),
    "float": ("uniform", "double", "real", "continuous", "float_uniform"),
    "int": ("integer", "int_uniform", "discrete_uniform"),
    "ddp": ("distributed_data_parallel", "torch_ddp"),
    "fsdp2": ("fsdp", "fully_sharded"),
    "baseline": ("base", "default", "train", "training", "baseline_run", "full"),
    "final": ("final_run", "production_run", "finalize"),
    "smoke": ("smoke_test", "test", "dry_run", "quick"),
    "probe": ("profile", "lr_find", "lr_finder", "benchmark"),
}  # fmt: skip
"""Our name (of a built-in part, a form, or one of a key's fixed values) to its aliases."""

SWITCHES: dict[str, tuple[str, dict[bool, Any]]] = {
    "fp16": ("training.precision", {True: "fp16", False: "fp32"}),
    "bf16": ("training.precision", {True: "bf16", False: "fp32"}),
    "tf32": ("training.precision", {True: "tf32", False: "fp32"}),
    "use_cuda": ("training.device", {True: "cuda", False: "cpu"}),
    "no_cuda": ("training.device", {True: "cpu"}),
    "use_cpu": ("training.device", {True: "cpu"}),
}
"""A flag elsewhere to our key and its values."""

SECTION_NAME = ("name", "use", "type", "class", "kind", "class_name", "_target_", "algorithm", "id")
"""Keys by which a section names its part; ours is `name` for the forms of a section, `use` for parts."""
WRAPPED = ("args", "params", "kwargs", "options", "arguments", "hyperparameters", "config", "configuration",
           "parameters", "hparams", "init_args", "settings")  # fmt: skip
"""Keys that only wrap the content of `args`, or of the section itself."""
OF_VALIDATION = ("val_", "valid_", "validation_", "eval_", "val/", "validation/", "eval/", "dev_")
"""Prefixes of a metric that is measured on validation, as all of ours are."""


def renamed(given: Mapping[str, Any], names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return a section under our keys, by a table of these to their aliases; of two for one key the first holds."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        ours = next((ours for ours, theirs in names.items() if folded(key) in {ours, *map(folded, theirs)}), key)
        found[ours if ours not in found and (ours == key or ours not in given) else key] = value
    return found


def our_name(given: str, known: Iterable[str]) -> str | None:
    """Return the one of the known names that is meant: without case and separators, or by a name from elsewhere."""
    wanted = folded(given)
    found = [name for name in known if wanted and wanted in {folded(name), *map(folded, NAMES.get(name, ()))}]
    exact = [name for name in found if folded(name) == wanted] or found
    return exact[0] if len(exact) == 1 else None


def known_elsewhere(name: str) -> list[str]:
    """Return the dotted keys that a word may mean: by their own last part, or by another library's name for them."""
    return list(_by_name().get(folded(name), ()))


@cache
def _by_name() -> dict[str, dict[str, None]]:
    found: dict[str, dict[str, None]] = {}
    for key in schema_keys():
        found.setdefault(folded(key.rpartition(".")[2]), {})[key] = None
    for key, others in KEYS.items():
        for other in others:
            found.setdefault(folded(other), {})[key] = None
    return found


def may_be_meant(key: str, path: Sequence[str]) -> bool:
    """Whether a word in the section at `path` may mean a key; one of a search is too special for another section."""
    return not key.startswith("search.") or not path or path[0] == "search"


@cache
def schema_keys() -> tuple[str, ...]:
    """Return every dotted key of the schema once; keys in lists, and under free names, are left out."""
    return tuple(_keys(TrainingConfig))


def _keys(model: type[BaseModel], path: str = "") -> list[str]:
    found: dict[str, None] = {}
    for name, about in model.model_fields.items():
        key = f"{path}{name}"
        found[key] = None
        found |= dict.fromkeys(inner for section in _sections(about.annotation) for inner in _keys(section, f"{key}."))
    return list(found)


def _sections(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    inner = () if get_origin(annotation) in {list, dict, tuple} else get_args(annotation)
    return [section for argument in inner for section in _sections(argument)]
