"""Files of a plan that train outside Trainwright: a script for the Transformers library, and what it needs."""

from __future__ import annotations

import json
import math
import os
import platform
from pathlib import Path
from typing import Any

from trainwright.tools.documents.rendering import Container, render, render_plain
from trainwright.tools.launchers import jobs
from trainwright.tools.training_architect.inspecting import answer_of, begun, stamps_of
from trainwright.tools.training_architect.plan import Plan
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import dump_yaml
from trainwright.trainer.run import write_generated

WORKER = "trainwright.trainer.jobs.generation"
TASKS = ("text_classification", "text_regression")
FOLDER = "plans"
PLAN, DATA = "/plan", "/data"
"""In the container: the plan's files, and the mounted code root."""
SECONDS = 45.0
METRICS = {"f1": True, "accuracy": True, "mae": False}
"""Of the script, and whether it is to be large; by any other metric the best epoch is that of the least loss."""
LORA_TARGETS = "all-linear"
RECOMPUTED = {"activation_checkpointing": True, "activation_checkpointing_kwargs": {"use_reentrant": False}}
NEEDED = ("torch", "transformers", "accelerate", "numpy", "safetensors")


def write_files(workspace: Workspace, plan: Plan, root: Path, name: str) -> list[str]:
    """Write the plan's files into the workspace and return their paths.

    Raises:
        ConfigurationError: there is no script for the task, the model is not here yet, the installed library
            refuses the arguments, or a file would hold a secret.
    """
    several = isinstance(plan.config["data"]["args"].get("target"), list)
    if plan.task not in TASKS or plan.facts["family"] != "transformers" or plan.first or several:
        what = "a plan with several targets" if several else plan.task
        raise _no_script(f"first run: {plan.first[0]}" if plan.first else _without(what))
    arguments = training_arguments(plan)
    found = _asked(workspace, plan, root, arguments)
    found["splits"].pop("test", None)  # evaluated once, at the project's export
    steps = _steps(plan, len(found["splits"]["train"]))
    arguments["warmup_steps"] = math.ceil(plan.config["schedule"]["warmup_fraction"] * steps)
    folder = workspace.path / FOLDER / name
    texts = _texts(plan, root, folder, found, arguments)
    return [str(path) for path in write_generated(folder, texts)]


def require_script(task: str | None) -> None:
    """Refuse a task of which there is no script, before anything is asked about it. Raises ConfigurationError."""
    if task is not None and task not in TASKS:
        raise _no_script(_without(task))


def _without(what: str) -> str:
    return f"{what} has no script; create_project trains it"


def _no_script(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"write_files makes a script of the Transformers library for texts with a target: {why}.",
        remedy="Call plan_training without write_files.",
        document="planning/files.md",
    )


def training_arguments(plan: Plan) -> dict[str, Any]:
    """Return the plan as arguments of transformers.TrainingArguments, all but output_dir."""
    config, facts = plan.config, plan.facts
    gpus, metric = facts["gpus"], facts["metric"]
    is_recomputed = "gradient_checkpointing" in config["training"]
    precision = config["training"]["precision"]
    return {
        "per_device_train_batch_size": config["loader"]["batch_size"] // gpus,
        "per_device_eval_batch_size": config["loader"]["batch_size"] // gpus,
        "gradient_accumulation_steps": config["training"]["accumulation_steps"],
        "num_train_epochs": config["training"]["epochs"],
        "learning_rate": config["optimizer"]["learning_rate"],
        "weight_decay": config["optimizer"]["weight_decay"],
        "optim": "adamw_torch",
        "max_grad_norm": config["training"].get("clip_norm", 0.0),
        "lr_scheduler_type": config["schedule"]["name"],
        "bf16": precision == "bf16",
        "fp16": precision == "fp16",
        **(RECOMPUTED if is_recomputed else {}),
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "save_total_limit": 2,
        "load_best_model_at_end": True,
        "metric_for_best_model": metric if metric in METRICS else "loss",
        "greater_is_better": METRICS.get(metric, False),
        "logging_steps": config["logging"]["every_n_steps"],
        "seed": 42,
        "dataloader_num_workers": config["loader"].get("num_workers", 0),
        "dataloader_pin_memory": config["loader"].get("pin_memory", False),
        "report_to": [],
    }


def _steps(plan: Plan, rows: int) -> int:
    config = plan.config
    batches = math.ceil(rows / config["loader"]["batch_size"])
    updates: int = math.ceil(batches / config["training"]["accumulation_steps"])
    return updates * int(config["training"]["epochs"])


def _asked(workspace: Workspace, plan: Plan, root: Path, arguments: dict[str, Any]) -> dict[str, Any]:
    """Let a process divide the rows and construct the arguments."""
    order = {
        "config": plan.config, "code_root": str(root), "arguments": arguments,
        "stamps": stamps_of(root, plan.config["data"]["args"].get("path")),
    }  # fmt: skip
    folder = begun(workspace, WORKER, order, root)
    found = answer_of(folder, SECONDS, lambda: False)
    if found is None:
        raise ConfigurationError(
            "Dividing the rows takes longer than a call may; it goes on.", remedy="Make the same call again."
        )
    jobs.forget(folder)  # other versions may be installed by the next time
    return found


def _texts(plan: Plan, root: Path, folder: Path, found: dict[str, Any], arguments: dict[str, Any]) -> dict[str, str]:
    """Return the text of each file by name."""
    settings = _settings(plan, os.path.relpath(root, folder), found, arguments)
    container = _container(folder.name)
    decided = [(one.key, one.value, one.why, one.source) for one in plan.decisions]
    return {
        "train.py": render_plain("training_architect/train.py.j2"),
        "plan.json": _json(settings),
        "training_arguments.json": _json(arguments),
        "splits.json": json.dumps(found["splits"]) + "\n",
        "accelerate.yaml": dump_yaml(accelerate_config(plan)),
        "deepspeed.json": _json(deepspeed_config(plan)),
        "requirements.txt": _requirements(settings, found),
        "Dockerfile": container.dockerfile(),
        ".dockerignore": container.dockerignore(),
        "README.md": render(
            "training_architect/readme.md.j2", intent=plan.request.intent, decided=decided, hardware=plan.device,
            same=_sameness(plan), commands=COMMANDS,
        ),
    }  # fmt: skip


def _settings(plan: Plan, root: str, found: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what plan.json holds: data, model and schedule as train.py reads them; `root` from the files' folder."""
    args, model = plan.config["data"]["args"], plan.config["model"]["args"]
    return {
        "root": root,
        "model": model["path"],
        "seed": 42,
        "patience": plan.config["early_stopping"]["patience_epochs"],
        "schedule": {"name": plan.config["schedule"]["name"], "warmup_steps": arguments["warmup_steps"]},
        "class_weights": found["class_weights"],
        "lora": _lora(plan.config.get("adapter")),
        "dtype": model.get("dtype", "float32"),
        "quantize": model.get("quantize"),
        "data": {
            "files": found["files"], "text": args["text"], "target": args["target"], "tokenizer": args["tokenizer"],
            "max_length": args["max_length"], "classes": found["classes"] or [],
            "delimiter": found["reading"].get("delimiter", ","),
            "encoding": found["reading"].get("encoding", "utf-8-sig"),
        },
    }  # fmt: skip


def _requirements(settings: dict[str, Any], found: dict[str, Any]) -> str:
    """Return the packages that train.py needs, a line each, in the versions that are installed here."""
    needed = {name: found["versions"][name] for name in NEEDED if name in found["versions"]}
    if settings["lora"]:
        needed["peft"] = found["versions"]["peft"]
    if settings["quantize"]:
        needed["bitsandbytes"] = found["versions"].get("bitsandbytes", "")
    if any(path.endswith(".parquet") for path in found["files"]):
        needed["pyarrow"] = found["versions"]["pyarrow"]
    return "".join(f"{name}=={number}\n" if number else f"{name}\n" for name, number in needed.items())


def _container(name: str) -> Container:
    """Return the container for train.py of the plan of this name."""
    return Container(
        what=f"Container for train.py of the plan {name}; written by plan_training.",
        usage=(
            f"docker build -t {name} .",
            f'docker run --rm --gpus all -v "CODE_ROOT:{DATA}" -v "$PWD/output:{PLAN}/output" {name}',
        ),
        python=platform.python_version(),
        lock="requirements.txt",
        command=("python", "train.py", "--root", DATA),
        folders=(PLAN, DATA, f"{PLAN}/output"),
        files=("train.py", "plan.json", "training_arguments.json", "splits.json", "accelerate.yaml", "deepspeed.json"),
    )


COMMANDS = """\
pip install -r requirements.txt
python train.py                                              # one device
accelerate launch --config_file accelerate.yaml train.py     # as planned, on several"""
"""What the README of the files says to run."""


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=1) + "\n"


def _lora(adapter: dict[str, Any] | None) -> dict[str, Any] | None:
    if adapter is None:
        return None
    return {"r": adapter["rank"], "lora_alpha": adapter["alpha"], "lora_dropout": 0.0, "target_modules": LORA_TARGETS}


def accelerate_config(plan: Plan) -> dict[str, Any]:
    """Return a configuration of `accelerate launch`: one process for each device, FSDP2 where weights are divided."""
    gpus, precision = plan.facts["gpus"], plan.config["training"]["precision"]
    divided = plan.config.get("distributed", {}).get("strategy") == "fsdp2"
    kind = "FSDP" if divided else "MULTI_GPU" if gpus > 1 else "NO"
    found: dict[str, Any] = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": kind,
        "num_machines": 1,
        "num_processes": gpus,
        "mixed_precision": precision if precision in {"bf16", "fp16"} else "no",
        "use_cpu": plan.device.kind == "cpu",
    }
    if divided:
        found["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": True,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        }
    return found


def deepspeed_config(plan: Plan) -> dict[str, Any]:
    """Return DeepSpeed's configuration for `--deepspeed`: ZeRO in stage 2, in stage 3 where weights must be divided."""
    divided = plan.config.get("distributed", {}).get("strategy") == "fsdp2"
    return {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "bf16": {"enabled": "auto"},
        "fp16": {"enabled": "auto"},
        "zero_optimization": {"stage": 3 if divided else 2, "overlap_comm": True, "contiguous_gradients": True},
    }


def _sameness(plan: Plan) -> str:
    if "adapter" in plan.config:
        return "Adapters begin at random values that the two draw in another order, so losses agree only roughly."
    return (
        "Rows, order, schedule and loss are the same. Without dropout and with a saved head, losses agree to the last "
        "digits that rounding leaves; dropout, and a head that is made anew, are drawn in another order, and then they "
        "agree only roughly."
    )
