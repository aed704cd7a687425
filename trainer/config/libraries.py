"""Names of models that other libraries publish, as the configuration that takes them from there."""

from __future__ import annotations

import re
from typing import Any

TIMM = re.compile(
    r"(resnet|resnext|wide_resnet|vit|deit|swin|convnext|efficientnet|mobilenet|densenet|regnet|vgg|beit|mixer|maxvit)"
    r"[a-z_]*\d?[\w.]*",
    re.IGNORECASE,
)
HUB = re.compile(
    r"[\w.-]+/[\w.-]+|(bert|distilbert|roberta|gpt2|t5|albert|deberta|electra|opt|llama|qwen)[\w.-]*", re.I
)
FILES = {
    "csv": "csv",
    "tsv": "csv",
    "jsonl": "jsonl",
    "parquet": "parquet",
    "arrow": "arrow",
    "npz": "npz",
    "txt": "text",
}
"""Ending of a file to the built-in source that reads it."""


def from_library(key: str, name: str) -> dict[str, Any]:
    """Return the dotted changes that take a model of this name from its library, or a file as data; {} for others."""
    if key in {"model", "model.use"} and TIMM.fullmatch(name) and any(sign.isdigit() or sign == "_" for sign in name):
        return {"model.use": "timm", "model.args": None, "model.args.model": name}
    if key in {"model", "model.use"} and HUB.fullmatch(name):
        return {"model.use": "transformers", "model.args": None, "model.args.hub": name}
    source = FILES.get(name.rpartition(".")[2].lower())
    if key in {"data", "data.use"} and source is not None and "." in name:
        return {"data.use": source, "data.args.path": name}
    return {}
