"""Split by scaffold: molecules of one Bemis-Murcko scaffold (1996) are never in two splits.

As in MoleculeNet (Wu et al. 2018, arXiv:1703.00564): the most frequent scaffolds are for training, the rarest for the
test, so that the test asks for molecules unlike those learned from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.by_group import counts_of, in_folds, together
from trainwright.trainer.data.split_methods.rows import MAX_NAMED, Codes, Rows, key_of, shares_of


def by_scaffold(rows: Rows, section: SplitSection) -> Codes:
    """Return the split of each row, (rows,); folds of what is not for the test are balanced like groups.

    Raises:
        DataError: an empty cell, one that is no molecule, too few scaffolds, or RDKit is not installed.
    """
    groups = together(rows, scaffolds(key_of(rows, section), str(section.key)))
    counts, sizes = counts_of(rows, groups, section), np.bincount(groups)
    order = np.argsort(-sizes, kind="stable")
    ends = np.cumsum(shares_of(section))[:-1]
    splits = np.zeros(len(sizes), dtype=np.int8)
    middle = (np.cumsum(sizes[order]) - sizes[order] / 2) / len(groups)
    splits[order] = np.searchsorted(ends, middle, side="right")
    return in_folds(splits, counts, section)[groups]


def scaffolds(smiles: Array, column: str) -> Array:
    """Return the scaffold of each molecule as SMILES, (rows,); of one without rings its own. Raises as by_scaffold."""
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem.Scaffolds import MurckoScaffold
    except ImportError as error:
        raise DataError(
            "Scaffolds of molecules need RDKit, which is not installed.",
            remedy="Install it (pip install rdkit), or divide by a column: "
            "configure(changes={'data.split': {'by': 'group', 'group': COLUMN}}).",
        ) from error
    murcko: Any = MurckoScaffold
    texts, places = np.unique(smiles.astype(str), return_inverse=True)
    found, wrong = [], []
    for place, text in enumerate(texts.tolist()):
        with rdBase.BlockLogs():  # which write to the standard error
            molecule: Any = Chem.MolFromSmiles(text)
        if molecule is None:
            wrong.append(place)
            continue
        ring = murcko.MurckoScaffoldSmiles(mol=molecule, includeChirality=False)
        found.append(ring or Chem.MolToSmiles(molecule))
    if wrong:
        where = np.flatnonzero(np.isin(places.reshape(-1), wrong))
        named = ", ".join(f"row {row} {str(smiles[row])[:30]!r}" for row in where[:MAX_NAMED])
        raise DataError(
            f"Column {column!r} has {len(where)} values that are no molecules: {named} (rows counted from 0).",
            remedy="Correct these SMILES or drop the rows.",
            details={"column": column, "rows": where[:20].tolist()},
        )
    return np.array(found)[places.reshape(-1)]
