"""Accelerators by name, from a dated table that the workspace's owner can replace, or as a probe found them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from trainwright.tools.training_architect.documents import DOCUMENTS
from trainwright.trainer.base.errors import ConfigurationError, folded, near
from trainwright.trainer.base.file_stamps import while_unchanged
from trainwright.trainer.base.records import Closed
from trainwright.trainer.config import load_yaml
from trainwright.trainer.estimation.hardware import Accelerator

TABLE = "accelerators.yaml"
GIB = 2**30
UNKNOWN = 1.0
"""TFLOP/s of a device that the table does not have: it has the unit, and nothing says how fast it is."""
COUNT = re.compile(r"^\s*(\d{1,4})\s*[x*\u00d7]\s*", re.IGNORECASE)
MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*(?:gb|gib|g)\b", re.IGNORECASE)
MAKERS = re.compile(r"\b(nvidia|amd|geforce|instinct|radeon|tesla|gpus?|cards?|the|an?|one|single)\b", re.IGNORECASE)
FAMILIES = {"tpu": r"\btpu|v[2-7][ep]\b", "trainium": r"trainium|inferentia", "gaudi": r"gaudi|hpu",
            "mps": r"\bmps\b|apple|\bm[1-5]( (pro|max|ultra))?$", "npu": r"\bnpu\b"}  # fmt: skip
CLASS = 0.12
"""Share by which a card's usable memory may lie below the size that it is sold by."""


@dataclass(frozen=True)
class Device:
    """What a plan knows of the devices that a run will have."""

    name: str
    kind: str
    """cpu or cuda."""
    count: int
    memory_bytes: int
    """Of one device."""
    bandwidth_gb_s: float | None = None
    teraflops: dict[str, float] = field(default_factory=dict)
    """Dense peak by fp32, tf32, fp16, bf16, fp8; absent where there is no such unit."""
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def accelerator(self) -> Accelerator | None:
        """The record with which time is estimated; None where its speed is not known."""
        if self.bandwidth_gb_s is None or not self.teraflops:
            return None
        rates = {name: speed * 1e12 for name, speed in self.teraflops.items()}
        kind: Literal["cpu", "cuda"] = "cpu" if self.kind == "cpu" else "cuda"
        return Accelerator(self.name, kind, self.memory_bytes, self.bandwidth_gb_s * 1e9, rates)

    @property
    def memory_gib(self) -> float:
        """Memory of one device."""
        return round(self.memory_bytes / GIB, 1)


class Table(Closed):
    """The table's file."""

    as_of: Any
    columns: list[str]
    rows: list[list[Any]]
    sources: dict[str, str] = Field(default_factory=dict)
    """What the keys in a row's source mean."""
    unchecked: list[str] = Field(default_factory=list)
    """Sources that nothing was compared with."""
    not_supported: dict[str, str] = Field(default_factory=dict)
    untested: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _rows_fit(self) -> Table:
        odd = next((row for row in self.rows if len(row) != len(self.columns)), None)
        if odd is not None or not {"name", "memory_gib"} <= set(self.columns):
            raise ValueError(f"each row has a cell for each of columns (name, memory_gib, …); got {odd}")
        for row in self.named().values():
            unknown = [key for key in str(row.get("source") or "").split() if key not in self.sources]
            if unknown:
                raise ValueError(f"{row['name']}: sources has no {unknown[0]!r}")
        return self

    def named(self) -> dict[str, dict[str, Any]]:
        """Return the rows by name."""
        rows = (dict(zip(self.columns, row, strict=True)) for row in self.rows)
        return {str(row["name"]): {**row, "as_of": str(self.as_of)} for row in rows}


def accelerators(owners: Path | None = None) -> tuple[dict[str, dict[str, Any]], Table]:
    """Return the rows by name, the owner's over ours, and our table.

    Raises ConfigurationError for a file that does not fit.
    """
    table = _read(DOCUMENTS / TABLE)
    rows = table.named()
    if owners is not None and owners.is_file():
        rows |= _read(owners).named()
    return rows, table


def _read(path: Path) -> Table:
    return while_unchanged((Table, str(path)), [str(path)], lambda: _read_anew(path))


def _read_anew(path: Path) -> Table:
    try:
        return Table.model_validate(load_yaml(path.read_text(encoding="utf-8"), source=path.name))
    except ValidationError as error:
        raise ConfigurationError(
            f"{path.name} does not fit: {error.errors()[0]['msg']}.",
            remedy="The workspace's owner corrects it; planning/accelerators.yaml shows the form.",
        ) from error


def named_device(text: str, owners: Path | None = None) -> Device:
    """Return the device that the words mean: `2x RTX 4090`, `one 24 GB card`, `A100 80GB`.

    Raises:
        ConfigurationError: nothing of this name, or one that no run starts on; the remedy names the nearest.
    """
    rows, table = accelerators(owners)
    count_found = COUNT.match(text)
    count = int(count_found[1]) if count_found else 1
    words = " ".join(MAKERS.sub(" ", text[count_found.end() :] if count_found else text).split()).lower()
    _refuse_unsupported(words, table, rows)
    by_name = {folded(name): row for name, row in rows.items()}
    by_name = {folded(alias): row for row in rows.values() for alias in row.get("aliases") or []} | by_name
    row = by_name.get(folded(words))
    if row is not None:
        return _device(row, count, table)
    memory = MEMORY.search(words)
    if memory is not None and not MEMORY.sub("", words).strip(" ,.-"):
        return _of_memory(float(memory[1]), count, rows, table)
    meant = near(words, [name.lower() for name in rows])
    raise ConfigurationError(
        f"hardware {text[:80]!r} is no accelerator of the table of {table.as_of}.",
        remedy=f"Name {meant[0] if meant else 'RTX 4090'!r}, or its memory ('24 GB'), or leave hardware out: this "
        "machine is probed. The workspace's owner adds rows in accelerators.yaml.",
        document="planning/accelerators.yaml",
    )


def _refuse_unsupported(words: str, table: Table, rows: dict[str, dict[str, Any]]) -> None:
    for kind, why in table.not_supported.items():
        if re.search(FAMILIES.get(kind, rf"\b{re.escape(kind)}"), words):
            names = ", ".join(list(rows)[5:12:3])
            raise ConfigurationError(
                f"{words!r} is not supported: {why}",
                remedy=f"Plan for an NVIDIA GPU ({names}, …), or for this machine: leave hardware out.",
                document="planning/accelerators.yaml",
            )


def _device(row: dict[str, Any], count: int, table: Table, notes: tuple[str, ...] = ()) -> Device:
    kinds = ("fp32", "tf32", "fp16", "bf16", "fp8")
    notes += (
        (f"the figures of {row['name']} were compared with no second source",)
        if row.get("source") in table.unchecked
        else ()
    )
    untested = (f"{row['name']} runs torch's ROCm build; nothing of this engine was tested there",)
    return Device(
        name=str(row["name"]),
        kind="cuda",
        count=count,
        memory_bytes=int(float(row["memory_gib"]) * GIB),
        bandwidth_gb_s=row.get("bandwidth_gb_s"),
        teraflops={kind: float(row[kind]) for kind in kinds if row.get(kind)},
        source=f"accelerators.yaml of {row['as_of']}",
        notes=notes + (untested if row["name"] in table.untested else ()),
    )


def _of_memory(gigabytes: float, count: int, rows: dict[str, dict[str, Any]], table: Table) -> Device:
    """Return a device known by its memory alone: as slow as the slowest of that class with bf16."""
    alike = [row for row in rows.values() if gigabytes * (1 - CLASS) <= float(row["memory_gib"]) <= gigabytes]
    alike = [row for row in alike if row.get("bf16")] or alike
    if not alike:
        return Device(f"{gigabytes:g} GB", "cuda", count, int(gigabytes * 0.95 * GIB), source="as named")
    slowest = min(alike, key=lambda row: float(row.get("bf16") or row.get("fp16") or row["fp32"]))
    least = min(float(row["memory_gib"]) for row in alike)
    note = (
        f"a card of {gigabytes:g} GB was not named: speed of the slowest such ({slowest['name']}), {least:g} GiB usable"
    )
    row = {**slowest, "name": f"{gigabytes:g} GB card", "memory_gib": least, "source": None}
    return _device(row, count, table, (note,))


def probed_device(found: dict[str, Any], owners: Path | None = None) -> Device:
    """Return the device that the probe of this machine found: its GPUs, else its processor."""
    gpus = found.get("gpus") or []
    if not gpus:
        return _processor(found)
    rows, table = accelerators(owners)
    name, least = str(gpus[0]["name"]), min(int(gpu["memory_bytes"]) for gpu in gpus)
    bare = folded(MAKERS.sub(" ", name))
    like = _by_name_and_memory(bare, least, rows)
    like = like or next((row for key, row in rows.items() if folded(key) in bare or bare in folded(key)), None)
    if like is None:
        capability = tuple(gpus[0].get("capability") or (0, 0))
        units = (
            {"fp32": UNKNOWN}
            | ({"fp16": UNKNOWN} if capability >= (7, 0) else {})
            | ({"bf16": UNKNOWN} if capability >= (8, 0) else {})
        )
        return Device(name, "cuda", len(gpus), least, teraflops=units, source="probed on this machine; speed not known")
    known = _device(like, len(gpus), table)
    return Device(name, "cuda", len(gpus), least, known.bandwidth_gb_s, known.teraflops, "probed on this machine")


def _by_name_and_memory(bare: str, memory_bytes: int, rows: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Return the row of that memory with the longest name in the driver's: `NVIDIA H100 80GB HBM3` is an H100 SXM.

    An alias counts, and the first word of a name with a number in it: `NVIDIA A100-SXM4-80GB` is an A100 80GB.
    """
    found = [
        (len(folded(alias)), row)
        for name, row in rows.items()
        for alias in [name, name.split()[0], *(row.get("aliases") or [])]
        if any(map(str.isdigit, alias))
        and folded(alias) in bare
        and abs(float(row["memory_gib"]) * GIB / memory_bytes - 1) <= CLASS
    ]
    return max(found, key=lambda each: each[0])[1] if found else None


def _processor(found: dict[str, Any]) -> Device:
    """Return the processor with its measured speeds: of fp32 alone, which is what a plan uses there."""
    measured = found.get("processor") or {}
    bandwidth = measured.get("bandwidth_bytes_per_second")
    return Device(
        "CPU",
        "cpu",
        1,
        int(found["ram_bytes"]),
        bandwidth_gb_s=bandwidth and bandwidth / 1e9,
        teraflops={kind: speed / 1e12 for kind, speed in measured.get("flops_per_second", {}).items()},
        source="probed on this machine",
    )
