"""Texts of a Trainer that has a tokenizer: the kept ones of its held-out rows show how a text becomes its token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Subset

from trainwright.trainer.engine.session import Session
from trainwright.trainer.frameworks.framework import framework_in
from trainwright.trainer.jobs.export.own_functions import held_out, raw_inputs_of
from trainwright.trainer.jobs.export.texts import TOKENIZER, Schema

CHECKED = 256
"""Held-out rows whose texts must give their ids."""
TASKS = {"regression": "regression", "multi_label_classification": "binary"}
"""Task of a loss by a configuration's `problem_type`."""
IDS, MASK, TYPES = "input_ids", "attention_mask", "token_type_ids"
BOUND = 1 << 20
"""Lengths from here on stand for none."""


def trainer_texts(session: Session, folder: Path) -> Schema | None:
    """Return the kind of input and how a text becomes tokens, and write the Trainer's tokenizer into the folder.

    `length` among it: tokens of every row, where all have as many, as a program of one length needs them.
    None where no column of texts of the held-out rows gives their ids by that tokenizer, row by row.
    """
    framework, samples = framework_in(session.work), held_out(session)
    backend = getattr(getattr(framework, "processing", None), "backend_tokenizer", None)
    if backend is None:
        return None
    rows = [samples[place] for place in range(min(len(samples), CHECKED))]
    if not all(isinstance(row, Mapping) and IDS in row for row in rows):
        return None
    assert framework is not None, "it has the tokenizer"  # noqa: S101
    config, padding = getattr(session.model, "config", None), framework.processing.pad_token_id or 0
    limits = framework.processing.model_max_length, getattr(config, "max_position_embeddings", None) or BOUND
    for column, texts in text_columns(samples).items():
        found = _as_tokenized(backend, list(islice(texts, len(rows))), rows, padding, min(limits))
        if found is not None:
            sizes = {len(row[IDS]) for row in rows}
            length = {"length": sizes.pop()} if len(sizes) == 1 else {}
            zeros = {"zeros": [TYPES]} if TYPES in rows[0] else {}
            text = {"column": column, "padding": padding, "tokenizer": {"name": "library"}, "max_length": found}
            (folder / TOKENIZER).write_text(str(backend.to_str(pretty=True)), encoding="utf-8")
            return {"kind": "text", "text": text | length | zeros}
    return None


def trainer_classes(session: Session) -> tuple[list[str], str | None]:
    """Return names of the classes, and the task of the loss, as a Trainer's data and its model's configuration say."""
    config = getattr(session.model, "config", None)
    if framework_in(session.work) is None or not getattr(config, "id2label", None):
        return [], None
    assert config is not None, "it has names"  # noqa: S101
    names = [str(config.id2label[place]) for place in sorted(config.id2label)]
    features = getattr(held_out(session), "features", {})
    listed = next((getattr(features[name], "names", None) for name in ("labels", "label") if name in features), None)
    are_made_up = all(name == f"LABEL_{place}" for place, name in enumerate(names))
    return (
        list(listed) if are_made_up and listed and len(listed) == len(names) else names,
        TASKS.get(config.problem_type or ""),
    )


def text_columns(samples: Any) -> dict[str, Sequence[str]]:
    """Return what the samples keep of texts, one of each sample, by column or attribute: `raw_inputs` before others."""
    if (raw := raw_inputs_of(samples)) is not None:
        return {"text": raw}
    features = getattr(samples, "features", None)
    if isinstance(features, Mapping):  # a data set of the datasets library
        named = [name for name, kind in features.items() if getattr(kind, "dtype", None) in {"string", "large_string"}]
        return {name: samples[name] for name in named}
    if isinstance(samples, Subset):
        columns = text_columns(samples.dataset)
        return {name: [column[place] for place in samples.indices] for name, column in columns.items()}
    listed = {name: list(one) for name, one in vars(samples).items() if _are_texts(one, len(samples))}
    return {name.strip("_"): one for name, one in listed.items()}


def _are_texts(values: Any, count: int) -> bool:
    """Return whether an attribute holds as many texts as there are samples."""
    if isinstance(values, str | Mapping) or not isinstance(values, Sized) or len(values) != count or not count:
        return False
    try:
        return all(isinstance(one, str) for one in values)  # type: ignore[attr-defined]
    except TypeError:
        return False


def _as_tokenized(
    backend: Any, texts: list[str], rows: list[Mapping[str, Any]], padding: int, limit: int
) -> int | None:
    """Return how many tokens a text has at most; None where the texts give other ids than the rows have."""
    made = type(backend).from_str(backend.to_str())
    made.no_padding()
    made.no_truncation()
    whole, ids = [made.encode(text).ids for text in texts], [_kept(row, padding) for row in rows]
    cut = {len(kept) for full, kept in zip(whole, ids, strict=True) if kept is not None and len(kept) < len(full)}
    sizes = {len(row[IDS]) for row in rows}
    is_filled = len(sizes) == 1 and any(kept is not None and len(kept) < min(sizes) for kept in ids)
    most = min([*cut, limit, *(sizes if is_filled else [])])
    made.enable_truncation(most)
    return most if [made.encode(text).ids for text in texts] == ids else None


def _kept(row: Mapping[str, Any], padding: int) -> list[int] | None:
    """Return a row's ids, (tokens,), without those that fill it up at its end; None where it has more than ids."""
    ids = torch.as_tensor(row[IDS]).tolist()
    mask = torch.as_tensor(row[MASK]).tolist() if MASK in row else [1] * len(ids)
    count = sum(mask)
    is_plain = mask == [1] * count + [0] * (len(ids) - count) and ids[count:] == [padding] * (len(ids) - count)
    has_types = TYPES in row and bool(torch.as_tensor(row[TYPES]).any())
    return ids[:count] if is_plain and not has_types else None
