"""Write gpu_guide.md anew from the architect's memory formula and the closed list of GPUs beside this file.

    python skills/cloud-gpu-configs/write_gpu_guide.py

It needs Trainwright, and neither torch's devices nor a network. A test compares the page with what this writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.tools.clouds import gpu_table
from trainwright.tools.training_architect.estimates import memory_by_formula
from trainwright.tools.training_architect.hardware import accelerators

PAGE = Path(__file__).with_name("gpu_guide.md")
BEGIN, END = "<!-- begin: written by write_gpu_guide.py -->", "<!-- end -->"
GIB = 2**30
FREE_SHARE = 0.1
"""Of a GPU's memory, that a plan leaves free."""
TOKENS, ROWS = 1024, 4
MODELS: dict[str, dict[str, float]] = {
    "66 M": {"parameters": 66e6, "layers": 6, "width": 768, "vocabulary": 30522},
    "125 M": {"parameters": 125e6, "layers": 12, "width": 768, "vocabulary": 50257},
    "350 M": {"parameters": 350e6, "layers": 24, "width": 1024, "vocabulary": 50257},
    "1.3 B": {"parameters": 1.3e9, "layers": 24, "width": 2048, "vocabulary": 50257},
    "3 B": {"parameters": 3e9, "layers": 28, "width": 3072, "vocabulary": 128256},
    "8 B": {"parameters": 8e9, "layers": 32, "width": 4096, "vocabulary": 128256},
    "14 B": {"parameters": 14e9, "layers": 40, "width": 5120, "vocabulary": 152064},
    "32 B": {"parameters": 32e9, "layers": 64, "width": 5120, "vocabulary": 152064},
    "70 B": {"parameters": 70e9, "layers": 80, "width": 8192, "vocabulary": 128256},
}
AGAIN = {"training.gradient_checkpointing": True}
ADAPTED = {"adapter": "lora", "model.args.dtype": "bfloat16", **AGAIN}
WAYS: dict[str, tuple[dict[str, Any], bool, float]] = {
    "AdamW, fp32": ({}, False, 8.0),
    "SGD with momentum, bf16 autocast": (AGAIN, True, 4.0),
    "AdamW, bf16 autocast": (AGAIN, True, 8.0),
    "LoRA, AdamW, base in bf16": (ADAPTED, True, 8.0),
    "QLoRA, AdamW, base in 4 bits": ({**ADAPTED, "model.args.quantize": "4bit"}, True, 8.0),
}
"""Way to what of memory.md's keys it sets, whether layers compute in 16 bits, and the optimizer's bytes a weight."""


def gpus() -> list[tuple[str, float, bool]]:
    """Return name, memory in GiB and whether it multiplies bf16, of each GPU that can be rented, the smallest first."""
    rows, _ = accelerators()
    table = gpu_table()
    names = {name for key in ("modal", "lambda", "runpod") for name in table.platforms[key].names.values()}
    return sorted(((name, float(rows[name]["memory_gib"]), bool(rows[name].get("bf16"))) for name in names),
                  key=lambda one: (one[1], one[0]))  # fmt: skip


def smallest(peak_gib: float, *, half: bool) -> str:
    """Return the GPU with the smallest memory that holds it; that it is to be divided where none does."""
    fit = [
        name for name, memory, has_bf16 in gpus() if memory * (1 - FREE_SHARE) >= peak_gib and (has_bf16 or not half)
    ]
    return fit[0] if fit else "divided"


def cell(model: dict[str, float], way: str) -> str:
    """Return memory and GPU of one model, trained one way."""
    changes, half, optimizer_bytes = WAYS[way]
    found = memory_by_formula(
        model, changes, rows=ROWS, tokens=TOKENS, half=half, causal=True, optimizer_bytes=optimizer_bytes
    )
    peak = found.peak_bytes / GIB
    return (
        f"{peak:.0f} GiB, {smallest(peak, half=half)}" if peak >= 10 else f"{peak:.1f} GiB, {smallest(peak, half=half)}"
    )


def table() -> str:
    """Return the table: models by ways."""
    lines = [f"| weights | {' | '.join(WAYS)} |", f"|---|{'---|' * len(WAYS)}"]
    for name, model in MODELS.items():
        lines.append(f"| {name} | {' | '.join(cell(model, way) for way in WAYS)} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """Return the page with its tables written anew."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
