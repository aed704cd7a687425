"""Run by `trainwright doctor` in a process of its own: imports everything together and looks at the devices."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
from typing import Any

from trainwright.trainer.base.releases import has_torch

TRAINING = {
    "torch": "torch",
    "safetensors": "safetensors.torch",
    "accelerate": "accelerate",
    "transformers": "transformers",
    "peft": "peft",
    "onnxscript": "onnxscript",
    "tensorboard": "tensorboard",
    "pyarrow": "pyarrow.parquet",
}
"""Looked at where torch is installed: a server without it trains in the projects' environments."""
SERVING = {
    "numpy": "numpy",
    "scikit-learn": "sklearn.model_selection",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "optuna": "optuna",
    "matplotlib": "matplotlib.figure",
    "sqlalchemy": "sqlalchemy.orm",
    "mcp": "mcp.server",
    "pillow": "PIL.Image",
}
OPTIONAL = {"torchvision": "torchvision", "timm": "timm"}
"""Looked at where they are installed: a torchvision built for another torch breaks transformers too."""


def probe() -> dict[str, Any]:
    """Return {versions, failures, devices, seconds}: what could be imported together, and what torch can use.

    `devices` is None where torch is not installed.
    """
    started = time.monotonic()
    versions, failures = {}, {}
    trains = has_torch()
    there = {name: module for name, module in OPTIONAL.items() if importlib.util.find_spec(module) is not None}
    for distribution, module in ((TRAINING | SERVING | there) if trains else SERVING).items():
        try:
            importlib.import_module(module)
            versions[distribution] = importlib.import_module("importlib.metadata").version(distribution)
        except Exception as error:  # noqa: BLE001 - a broken package may raise anything, and the report must name it
            failures[distribution] = f"{type(error).__name__}: {error}"[:300]
    return {
        "versions": versions,
        "failures": failures,
        "devices": (_devices() if "torch" in versions else {}) if trains else None,
        "seconds": round(time.monotonic() - started, 1),
    }


def _devices() -> dict[str, Any]:
    """Return what torch can compute on, each tried with one multiplication."""
    torch: Any = importlib.import_module("torch")
    gpus = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        ones = torch.ones(64, 64, device=f"cuda:{index}")
        works = bool((ones @ ones).sum().item() == 64.0**3)
        gpus.append({"name": properties.name, "memory_bytes": properties.total_memory, "works": works})
    return {"gpus": gpus, "cuda": torch.version.cuda, "threads": torch.get_num_threads()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(probe()))
