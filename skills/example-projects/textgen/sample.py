#!/usr/bin/env python3
"""Let the released model write on, and weigh it against compressors on the held-back chapters.

    python sample.py                                   # the model of the workspace in this folder
    python sample.py --prompt "And David" --tokens 80

Bits per byte of the test chapters: of single characters (unigram), of zlib and xz alone, and of xz that has seen the
train chapters (what the test adds to their compressed size). The model's figure is certified by the export and read
from metrics.json. Prints JSON as its last line.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import sys
import zlib
from collections import Counter
from pathlib import Path

PRESET = 9 | lzma.PRESET_EXTREME


def naive(train: str, test: str) -> dict[str, float]:
    """Return the bits per byte of the test text by each way that learns little or nothing."""
    seen, given = train.encode(), test.encode()
    counts = Counter(seen)
    bits = sum(-math.log2((counts[byte] + 1) / (len(seen) + 256)) for byte in given)
    sizes = {
        "zlib": len(zlib.compress(given, 9)),
        "xz": len(lzma.compress(given, preset=PRESET)),
        "xz_after_train": len(lzma.compress(seen + given, preset=PRESET)) - len(lzma.compress(seen, preset=PRESET)),
    }
    found = {"unigram": bits / len(given)} | {name: 8 * size / len(given) for name, size in sizes.items()}
    return {name: round(value, 3) for name, value in found.items()}


def written_on(folder: Path, prompt: str, tokens: int, temperature: float, seed: int) -> str:
    """Return the prompt and what the model writes after it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = folder / "transformers"
    tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(place, local_files_only=True).eval()
    context = model.config.max_position_embeddings
    torch.manual_seed(seed)
    given = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
    begun = torch.cat([torch.tensor([[tokenizer.sep_token_id]]), given], dim=1)
    made = model.generate(
        begun, attention_mask=torch.ones_like(begun), do_sample=True, temperature=temperature, top_k=0,
        max_new_tokens=min(tokens, context - begun.shape[1]), pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id,
    )  # fmt: skip
    return str(tokenizer.decode(made[0], skip_special_tokens=True)).strip()


def read_text(data: Path) -> dict[str, str]:
    """Return the text of each split."""
    rows = [json.loads(line) for line in (data / "chapters.jsonl").read_text(encoding="utf-8").splitlines()]
    return {
        split: "\n".join(row["text"] for row in rows if row["split"] == split)
        for split in ("train", "validation", "test")
    }


def main() -> None:
    """Print three samples, then the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path(".trainwright/projects/textgen/final_model"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--prompt", default="And the king said")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--temperature", type=float, default=0.8)
    asked = parser.parse_args()
    texts = read_text(asked.data)
    metrics = json.loads((asked.model / "metrics.json").read_text(encoding="utf-8"))["test"]["metrics"]
    for seed in range(3):
        sys.stdout.write(written_on(asked.model, asked.prompt, asked.tokens, asked.temperature, seed) + "\n---\n")
    found = {"model": round(metrics["bits_per_byte"], 3), **naive(texts["train"], texts["test"])}
    sys.stdout.write(json.dumps({"bits_per_byte": found}) + "\n")


if __name__ == "__main__":
    main()
