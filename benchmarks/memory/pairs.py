"""Pairs of model and strategy whose memory is estimated and measured, on data that are generated here."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = """
import torch
from torch.utils.data import TensorDataset


def labelled(inputs, classes):
    labels = torch.arange(len(inputs)) % classes
    return TensorDataset(inputs, labels)


def tokens(rows=96, length=128, vocabulary=4000, classes=4):
    drawn = torch.Generator().manual_seed(1)
    return labelled(torch.randint(5, vocabulary, (rows, length), generator=drawn), classes)


def pictures(rows=96, side=64, classes=10):
    return labelled(torch.randn(rows, 3, side, side, generator=torch.Generator().manual_seed(1)), classes)


def rows(rows=512, columns=200, classes=4):
    return labelled(torch.randn(rows, columns, generator=torch.Generator().manual_seed(1)), classes)
"""


@dataclass(frozen=True)
class Pair:
    """A model, and a strategy to train it."""

    model: str
    strategy: str
    config: dict[str, Any]

    @property
    def name(self) -> str:
        """Both."""
        return f"{self.model} / {self.strategy}"


def write_data(folder: Path) -> None:
    """Write the module that makes the data, and a text."""
    (folder / "bench_data.py").write_text(DATA, encoding="utf-8")
    drawn = random.Random(1)
    words = ["".join(drawn.choices("abcdefghijklmnop", k=drawn.randint(2, 9))) for _ in range(500)]
    documents = [" ".join(drawn.choices(words, k=1500)) for _ in range(30)]
    (folder / "text.txt").write_text("\n\n\n".join(documents), encoding="utf-8")
    tagged = [{"tokens": words[n : n + 20], "tags": ["A", "B"] * 10} for n in range(0, 400, 4)]
    sentences = [{"text": " ".join(words[n : n + 16]), "target": " ".join(words[n : n + 8])} for n in range(0, 400, 4)]
    for name, rows in (("tagged", tagged), ("sentences", sentences)):
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


def _text(block: int) -> dict[str, Any]:
    return {"use": "text", "args": {"path": "text.txt", "separator": "\n\n\n", "block_size": block}}


def _entry(what: str, **args: Any) -> dict[str, Any]:
    return {"use": f"bench_data.py:{what}", "args": args, "split": {"validation": 0.2, "test": 0.1}}


def _language(model_type: str, block: int = 256, batch: int = 8, **sizes: Any) -> dict[str, Any]:
    sizes = {"bos_token_id": 1, "eos_token_id": 2, **sizes}
    model = {"use": "transformers", "args": {"config": {"model_type": model_type, **sizes}}}
    return {"model": model, "data": _text(block), "loss": "next_token", "loader": {"batch_size": batch}}


LLAMA = {
    "hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 4096,
}  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "gpt2 3 M": _language("gpt2", block=128, n_embd=256, n_layer=2, n_head=4, vocab_size=4096),
    "llama 3 M": _language("llama", block=128, **LLAMA),
    "llama 3 M, 1024 tokens": _language("llama", block=1024, batch=2, **LLAMA),
    "llama 18 M, 32k words": _language("llama", block=128, **{**LLAMA, "vocab_size": 32000}),
    "qwen2 3 M": _language("qwen2", block=128, **LLAMA),
    "gpt built in": {
        "model": {"use": "gpt", "args": {"layers": 3, "width": 256, "heads": 4}},
        "data": _text(128),
        "loss": "next_token",
        "loader": {"batch_size": 8},
    },
    "bert 4 M": {
        "model": {
            "use": "transformers",
            "args": {
                "config": {
                    "model_type": "bert", "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
                    "intermediate_size": 1024, "vocab_size": 8000,
                }
            },
        },
        "data": _entry("tokens", length=64),
        "loader": {"batch_size": 16},
    },
    "distilbert 7 M": {
        "model": {
            "use": "transformers",
            "args": {
                "config": {
                    "model_type": "distilbert", "dim": 384, "n_layers": 2, "n_heads": 6, "hidden_dim": 1536,
                    "vocab_size": 8000,
                }
            },
        },
        "data": _entry("tokens", length=64),
        "loader": {"batch_size": 16},
    },
    "bert 3 M, words": {
        "model": {
            "use": "transformers",
            "args": {
                "config": {
                    "model_type": "bert", "hidden_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
                    "intermediate_size": 1024, "vocab_size": 1000,
                }
            },
        },
        "data": {
            "use": "token_classification",
            "args": {"path": "tagged.jsonl", "words": "tokens", "tags": "tags", "tokenizer": "bytes", "max_length": 64},
        },
        "loader": {"batch_size": 16},
    },
    "t5 2 M, sentences": {
        "model": {
            "use": "transformers",
            "args": {
                "config": {
                    "model_type": "t5", "d_model": 192, "d_kv": 32, "d_ff": 512, "num_layers": 2, "num_heads": 6,
                    "vocab_size": 1000, "decoder_start_token_id": 0,
                }
            },
        },
        "data": {
            "use": "seq2seq",
            "args": {
                "path": "sentences.jsonl", "tokenizer": "bytes", "max_length": 96, "max_target_length": 48,
                "decoder_start": 0,
            },
        },
        "loss": "next_token",
        "loader": {"batch_size": 16},
    },
    "resnet-20 w64": {
        "model": {"use": "resnet", "args": {"depth": 20, "width": 64}},
        "data": _entry("pictures", side=32),
        "loader": {"batch_size": 16},
    },
    "cnn": {
        "model": {"use": "cnn", "args": {"channels": [64, 128, 256]}},
        "data": _entry("pictures", side=48),
        "loader": {"batch_size": 16},
    },
    "mlp 9 M": {
        "model": {"use": "mlp", "args": {"hidden": [2048, 2048, 2048]}},
        "data": _entry("rows"),
        "loader": {"batch_size": 64},
    },
    "ft-transformer": {
        "model": {"use": "ft_transformer", "args": {"layers": 3, "width": 192, "heads": 8}},
        "data": _entry("rows", rows=256, columns=100),
        "loader": {"batch_size": 32},
    },
}  # fmt: skip
STRATEGIES: dict[str, dict[str, Any]] = {
    "full fp32, AdamW": {},
    "full bf16, AdamW": {"training": {"precision": "bf16"}},
    "LoRA": {"adapter": {"name": "lora", "rank": 8}},
    "DoRA": {"adapter": {"name": "lora", "rank": 8, "use_dora": True}},
    "LoRA bf16": {"adapter": {"name": "lora", "rank": 8}, "training": {"precision": "bf16"}},
    "recomputed": {"training": {"gradient_checkpointing": {}}},
    "recomputed bf16": {"training": {"gradient_checkpointing": {}, "precision": "bf16"}},
    "recomputed parts": {"training": {"gradient_checkpointing": {"modules": ["*"]}}},
    "SGD": {"optimizer": {"name": "sgd", "momentum": 0.0}},
    "SGD, momentum": {"optimizer": {"name": "sgd", "momentum": 0.9}},
    "accumulated 4": {"training": {"accumulation_steps": 4}},
    "Adafactor": {"optimizer": {"name": "adafactor"}},
    "clipped, EMA": {"training": {"clip_norm": 1.0}, "weight_averaging": {"name": "ema"}},
    "eager attention": {"model": {"args": {"config": {"attn_implementation": "eager"}}}},
    "ddp 2": {"distributed": {"processes": 2, "strategy": "ddp"}},
    "ddp 2 bf16": {"distributed": {"processes": 2, "strategy": "ddp"}, "training": {"precision": "bf16"}},
    "fsdp2 2": {"distributed": {"processes": 2, "strategy": "fsdp2"}},
    "fsdp2 4": {"distributed": {"processes": 4, "strategy": "fsdp2"}},
    "fsdp2 2 bf16, recomputed": {
        "distributed": {"processes": 2, "strategy": "fsdp2"},
        "training": {"precision": "bf16", "gradient_checkpointing": {}},
    },
}
CHOSEN = {
    "gpt2 3 M": ["full fp32, AdamW", "full bf16, AdamW", "LoRA", "recomputed", "SGD", "accumulated 4",
                 "eager attention"],
    "llama 3 M": ["full fp32, AdamW", "full bf16, AdamW", "LoRA", "DoRA", "LoRA bf16", "recomputed",
                  "recomputed bf16",
                  "Adafactor", "clipped, EMA", "eager attention", "ddp 2", "ddp 2 bf16", "fsdp2 2", "fsdp2 4",
                  "fsdp2 2 bf16, recomputed"],
    "llama 3 M, 1024 tokens": ["full fp32, AdamW", "recomputed", "LoRA bf16"],
    "llama 18 M, 32k words": ["full fp32, AdamW", "LoRA"],
    "qwen2 3 M": ["full fp32, AdamW", "recomputed bf16"],
    "gpt built in": ["full fp32, AdamW", "full bf16, AdamW"],
    "bert 4 M": ["full fp32, AdamW", "full bf16, AdamW", "LoRA", "SGD, momentum", "ddp 2", "fsdp2 2"],
    "distilbert 7 M": ["full fp32, AdamW", "recomputed"],
    "bert 3 M, words": ["full fp32, AdamW", "LoRA"],
    "t5 2 M, sentences": ["full fp32, AdamW", "full bf16, AdamW"],
    "resnet-20 w64": ["full fp32, AdamW", "SGD, momentum", "full bf16, AdamW"],
    "cnn": ["full fp32, AdamW"],
    "mlp 9 M": ["full fp32, AdamW", "SGD", "ddp 2", "fsdp2 2"],
    "ft-transformer": ["full fp32, AdamW"],
}  # fmt: skip
QUICK = ("llama 3 M / full fp32, AdamW", "llama 3 M / LoRA bf16", "bert 4 M / full bf16, AdamW", "mlp 9 M / SGD")


def pairs() -> list[Pair]:
    """Return all pairs."""
    return [
        Pair(model, strategy, _merged(MODELS[model], STRATEGIES[strategy]))
        for model, strategies in CHOSEN.items()
        for strategy in strategies
    ]


def _merged(one: Any, other: Any) -> Any:
    if not (isinstance(one, dict) and isinstance(other, dict)):
        return copy.deepcopy(other)
    both = {key: _merged(one[key], value) if key in one else value for key, value in other.items()}
    return copy.deepcopy({**one, **both})
