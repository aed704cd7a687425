#!/usr/bin/env python3
"""Sample molecules from the released model, and count what is valid, unique and new, beside two naive samplers.

    python sample.py                      # 1,000 from the model of the workspace in this folder
    python sample.py --model final_model --count 200 --show 20

The naive samplers draw characters by what all molecules of data/ have: one character at a time (unigram), and by the
four before it (5-gram). New means in no row of data/, held-back ones included. Prints JSON as its last line.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

START, END = 256, ord("\n")
"""Tokens: of the character tokenizer, the mark before a document, and the line break with which each text ends."""
LONGEST = 63
BATCH = 250


def from_model(folder: Path, count: int, temperature: float, seed: int) -> list[str]:
    """Return texts that the model writes, each up to its line break."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder / "transformers", local_files_only=True).eval()
    torch.manual_seed(seed)
    found: list[str] = []
    while len(found) < count:
        start = torch.full((min(BATCH, count - len(found)), 1), START)
        written = model.generate(
            start, attention_mask=torch.ones_like(start), do_sample=True, temperature=temperature, top_k=0,
            max_new_tokens=LONGEST, eos_token_id=END, pad_token_id=END,
        )  # fmt: skip
        found += ["".join(map(chr, row)).partition("\n")[0] for row in written[:, 1:].tolist()]
    return found


def from_counts(molecules: Iterable[str], order: int, count: int, seed: int) -> list[str]:
    """Return texts drawn by how often each character follows the `order - 1` before it."""
    follows: dict[str, Counter[str]] = defaultdict(Counter)
    before = order - 1
    for smiles in molecules:
        text = " " * before + smiles + "\n"
        for place in range(before, len(text)):
            follows[text[place - before : place]][text[place]] += 1
    tables = {context: (list(seen), list(seen.values())) for context, seen in follows.items()}
    draw = random.Random(seed)

    def one() -> Iterator[str]:
        context = " " * before
        for _ in range(LONGEST):
            [found] = draw.choices(*tables[context])
            if found == "\n":
                return
            yield found
            context = (context + found)[len(context) + 1 - before :]

    return ["".join(one()) for _ in range(count)]


def unigram_bits(molecules: Iterable[str]) -> float:
    """Return the bits a character needs by its frequency alone, the line break that ends each molecule included."""
    counts = Counter("".join(smiles + "\n" for smiles in molecules))
    size = counts.total()
    return -sum(count / size * math.log2(count / size) for count in counts.values())


def figures(samples: list[str], known: set[str]) -> dict[str, float]:
    """Return what of the samples is valid (of all), unique (of the valid), new (of the unique), and their mean QED.

    Args:
        samples: texts that should be SMILES of one molecule.
        known: canonical SMILES.
    """
    from rdkit import Chem, rdBase
    from rdkit.Chem import QED

    drug_likeness: Any = QED.qed
    with rdBase.BlockLogs():
        molecules = [Chem.MolFromSmiles(text) if text else None for text in samples]
    valid = [found for found in molecules if found is not None]
    unique = {Chem.MolToSmiles(found): found for found in valid}
    new = set(unique) - known
    return {
        "validity": round(len(valid) / len(samples), 4),
        "uniqueness": round(len(unique) / len(valid), 4) if valid else 0.0,
        "novelty": round(len(new) / len(unique), 4) if unique else 0.0,
        "valid_new": round(len(new) / len(samples), 4),
        "qed_of_new": round(sum(drug_likeness(unique[smiles]) for smiles in new) / len(new), 4) if new else 0.0,
        "characters": round(sum(map(len, new)) / len(new), 1) if new else 0.0,
    }


def main() -> None:
    """Print some samples, then the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path(".trainwright/projects/molecules/final_model"))
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=5)
    asked = parser.parse_args()
    lines = (asked.data / "molecules.jsonl").read_text(encoding="utf-8").splitlines()
    known = [json.loads(line)["smiles"] for line in lines]
    written = from_model(asked.model, asked.count, asked.temperature, asked.seed)
    counted = {f"{order}-gram": from_counts(known, order, asked.count, asked.seed) for order in (1, 5)}
    found = {name: figures(texts, set(known)) for name, texts in {"model": written, **counted}.items()}
    found["data"] = figures(known, set())
    found["unigram"] = {"bits_per_byte": round(unigram_bits(known), 3)}
    sys.stdout.write("\n".join([*written[: asked.show], json.dumps(found)]) + "\n")


if __name__ == "__main__":
    main()
