#!/usr/bin/env python3
"""Make data/molecules.jsonl: small molecules of the NCI collection that comes with RDKit, as canonical SMILES.

    pip install rdkit && python prepare.py

A row has `smiles`, by which molecules are split, and `text`: the same with a line break, by which the model learns
where a molecule ends. Salts and mixtures (with a dot), copies, and what RDKit cannot read are left out and counted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

LONGEST = 62
"""Characters of a SMILES; with the marks before and after it 64 tokens."""


def nci_smiles() -> list[str]:
    """Return the SMILES of RDKit's file in its order. Raises SystemExit where RDKit is not installed."""
    try:
        from rdkit import RDConfig
    except ImportError:
        raise SystemExit("The molecules lie in the package rdkit: pip install rdkit") from None
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line.strip()]


def canonical(smiles: str) -> str | None:
    """Return the canonical SMILES of one molecule; None where it is none, or a mixture."""
    from rdkit import Chem, rdBase

    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
    return None if molecule is None or "." in smiles else str(Chem.MolToSmiles(molecule))


def chosen(smiles: Iterable[str]) -> tuple[list[str], dict[str, int]]:
    """Return the molecules, each once, in order, and how many were left out for what reason."""
    kept: dict[str, None] = {}
    left_out = {"unreadable_or_mixture": 0, "too_long": 0, "copy": 0}
    for given in smiles:
        found = canonical(given)
        if found is None:
            left_out["unreadable_or_mixture"] += 1
        elif len(found) > LONGEST:
            left_out["too_long"] += 1
        elif found in kept:
            left_out["copy"] += 1
        else:
            kept[found] = None
    return list(kept), left_out


def write(folder: Path, smiles: Iterable[str]) -> dict[str, object]:
    """Write molecules.jsonl, and return what was written."""
    molecules, left_out = chosen(smiles)
    folder.mkdir(parents=True, exist_ok=True)
    rows = (json.dumps({"smiles": found, "text": found + "\n"}) for found in molecules)
    (folder / "molecules.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return {"molecules": len(molecules), "left_out": left_out}


if __name__ == "__main__":
    written = write(Path(sys.argv[1] if len(sys.argv) > 1 else "data"), nci_smiles())
    sys.stdout.write(json.dumps(written) + "\n")
