"""What every built-in source of data promises, whatever it reads."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import csv, ipc, orc, parquet
from tests.trainer.data.spreadsheets import write_xlsx
from tests.variants import variants

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError, DataError, TrainwrightError
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.first_look import first_sample
from trainwright.trainer.data.plain_values import plain_sample
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import SOURCES
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.jobs.data_worker import fix_rows
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.run.artifacts import Array, FixedRows
from trainwright.trainer.supervision.stop import StopRequest

ROWS = 60


@dataclass(frozen=True)
class Example:
    """A source with something to read."""

    use: str
    path: str | None = None
    args: dict[str, Any] = field(default_factory=dict)
    write: Callable[[Path, int], None] = lambda path, seed: None
    """Writes what is read, other values for another seed."""
    spoil: Callable[[Path], None] = lambda path: None
    key: str = "path"
    """The argument that names what is read."""
    form: str = "{}"
    """How."""

    def values(self, **changes: Any) -> dict[str, Any]:
        """Return the `args` of a configuration."""
        return {**self.args, **({} if self.path is None else self.at(self.path)), **changes}

    def at(self, path: str) -> dict[str, Any]:
        """Return the argument that names a path."""
        return {self.key: self.form.format(path)}


def table(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    numbers = {name: random.standard_normal(ROWS) for name in ("width", "height")}
    texts = [f"{'good' if row % 2 else 'bad'} text {row} of {seed}" for row in range(ROWS)]
    return pa.table({**numbers, "text": texts, "kind": [f"k{row % 2}" for row in range(ROWS)]})


def write_lines(path: Path, seed: int) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table(seed).to_pylist()))


def write_arrow(path: Path, seed: int) -> None:
    path.mkdir(exist_ok=True)
    with ipc.new_stream(str(path / "data-0.arrow"), table(seed).schema) as writer:
        writer.write_table(table(seed))
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-0.arrow"}]}))


def write_excel(path: Path, seed: int) -> None:
    found = table(seed)
    write_xlsx(path, {"one": [found.column_names, *(list(row.values()) for row in found.to_pylist())]})


def write_images(path: Path, seed: int) -> None:
    for row in range(ROWS):
        folder = path / f"k{row % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng([seed, row]).integers(0, 255, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{row}.png")


def write_archive(path: Path, seed: int) -> None:
    write_images(path.with_suffix(""), seed)
    path.unlink(missing_ok=True)
    shutil.make_archive(str(path.with_suffix("")), "zip", path.with_suffix(""))
    shutil.rmtree(path.with_suffix(""))


def write_npz(path: Path, seed: int) -> None:
    np.savez(path, x=np.random.default_rng(seed).standard_normal((ROWS, 3)).astype("f4"), y=np.arange(ROWS) % 2)


def write_database(path: Path, seed: int) -> None:
    path.unlink(missing_ok=True)
    rows = [(number, *row.values()) for number, row in enumerate(table(seed).to_pylist())]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, width REAL, height REAL, text, kind)")
        connection.executemany("INSERT INTO things VALUES (?, ?, ?, ?, ?)", rows)


def write_chats(path: Path, seed: int) -> None:
    rows = [{"instruction": f"ask {row} of {seed}", "output": f"answer {row} of {seed}"} for row in range(ROWS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_tagged(path: Path, seed: int) -> None:
    rows = [{"tokens": ["anna", "sees", f"{row} of {seed}"], "tags": ["B-PER", "O", "O"]} for row in range(ROWS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_pairs(path: Path, seed: int) -> None:
    rows = [{"text": f"read {row} of {seed}", "target": f"write {row}"} for row in range(ROWS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_questions(path: Path, seed: int) -> None:
    rows = [
        {"question": f"which of {seed}?", "context": f"it is {row} of {seed}", "answers": str(row), "answer": row % 2,
         "choices": [f"one {row} of {seed}", f"two {row}"]}
        for row in range(ROWS)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_text(path: Path, seed: int) -> None:
    path.write_text("\n--\n".join(f"document {row} of {seed} " * 3 for row in range(ROWS)))


def spoil_file(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00\x01")


MASKED = {"separator": "\n--\n", "block_size": 16, "masked": 0.2}
NUMBERS = {"target": "kind", "features": ["width", "height"]}
TEXTS = {"target": "kind", "text": "text"}
WRITERS: dict[str, tuple[Callable[[Path, int], None], Callable[[Path], None]]] = {
    "csv": (lambda path, seed: csv.write_csv(table(seed), path), spoil_file),
    "jsonl": (write_lines, spoil_file),
    "parquet": (lambda path, seed: parquet.write_table(table(seed), path), spoil_file),
    "orc": (lambda path, seed: orc.write_table(table(seed), path), spoil_file),
    "excel": (write_excel, spoil_file),
    "arrow": (write_arrow, lambda path: spoil_file(path / "data-0.arrow")),
}
DATABASE = {
    "key": "url", "form": "sqlite:///{}", "write": write_database, "spoil": lambda path: path.write_bytes(b"no" * 99),
}  # fmt: skip
EXAMPLES = {
    "sql": Example("sql", "things.db", {**NUMBERS, "table": "things"}, **DATABASE),
    "sql of texts": Example("sql", "things.db", {**TEXTS, "table": "things"}, **DATABASE),
    **{name: Example(name) for name in ("digits", "iris", "wine", "breast_cancer", "diabetes")},
    **{name: Example(name, f"things.{name}", NUMBERS, *how) for name, how in WRITERS.items()},
    **{f"{name} of texts": Example(name, f"things.{name}", TEXTS, *how) for name, how in WRITERS.items()},
    "csv to model as language": Example("csv", "things.csv", {"text": "text", "block_size": 8}, *WRITERS["csv"]),
    "npz": Example("npz", "things.npz", {}, write_npz, spoil_file),
    "text": Example("text", "things.txt", {"separator": "\n--\n", "block_size": 16}, write_text, spoil_file),
    "chat": Example("chat", "things.jsonl", {"block_size": 64}, write_chats, spoil_file),
    "token_classification": Example("token_classification", "things.jsonl", {}, write_tagged, spoil_file),
    "text to be masked": Example("text", "things.txt", MASKED, write_text, spoil_file),
    "seq2seq": Example("seq2seq", "things.jsonl", {}, write_pairs, spoil_file),
    "question_answering": Example("question_answering", "things.jsonl", {}, write_questions, spoil_file),
    "multiple_choice": Example("multiple_choice", "things.jsonl", {}, write_questions, spoil_file),
    "images": Example("images", "things", {}, write_images, lambda path: spoil_file(path / "k0" / "0.png")),
    "images of an archive": Example("images", "things.zip", {"augment": {"flip": "both"}}, write_archive, spoil_file),
}
"""A new source is one line here."""
OF_FILES = [name for name, example in EXAMPLES.items() if example.path]


def loaded(example: Example, root: Path, *, seed: int = 42, **changes: Any) -> Splits:
    """Return the splits as a run of this configuration makes them."""
    data = {"use": example.use, "args": example.values(**changes), "split": {"seed": seed}}
    return build_data(parse_config({"model": {"use": "mlp"}, "data": data}), root)


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Example:
    """Every source in turn, its files written to `tmp_path`."""
    found = EXAMPLES[request.param]
    if found.path:
        found.write(tmp_path / found.path, 1)
    return found


FIXED_OFTEN = ["sql", "iris", "csv", "text", "chat", "images of an archive", "multiple_choice"]
"""Sources whose rows every suite fixes, of unlike kinds: it takes a fork and a validation."""
of_files = pytest.mark.parametrize("example", OF_FILES, indirect=True)


def test_every_source_keeps_this_contract_in_every_form() -> None:
    forms = {type_of(example) for example in EXAMPLES.values()}
    assert {example.use for example in EXAMPLES.values()} == set(SOURCES)
    assert forms >= {form for source in SOURCES.values() for form in (source, source.form_of({"text": "text"}))}


def type_of(example: Example) -> Any:
    return SOURCES[example.use].form_of(example.args)


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
def test_it_loads_the_same_wherever_its_files_lie(example: Example, tmp_path: Path) -> None:
    splits = loaded(example, tmp_path)
    evidence = data_evidence(splits, tmp_path)
    assert set(splits.samples) == {"train", "validation", "test"}
    assert all(len(samples) for samples in splits.samples.values())
    assert first_sample(splits.samples["train"]) is not None
    assert evidence.source == example.use
    assert evidence.disjoint
    assert bool(evidence.files) == bool(example.path)
    assert all(path.removeprefix("sql://").startswith(example.path) for path in evidence.files if example.path)
    elsewhere = tmp_path.with_name(f"{tmp_path.name}-moved")
    shutil.move(tmp_path, elsewhere)
    again = data_evidence(loaded(example, elsewhere), elsewhere)
    elsewhere.rename(tmp_path)
    assert again == evidence


@pytest.mark.requirement("REPRO-4", "TRAIN-1")
def test_the_seed_of_the_split_decides_what_is_in_each_and_nothing_else(example: Example, tmp_path: Path) -> None:
    one, other = (data_evidence(loaded(example, tmp_path, seed=seed), tmp_path) for seed in (42, 43))
    assert one.fingerprint != other.fingerprint
    assert one.files == other.files
    total = [sum(split.size for split in evidence.splits.values()) for evidence in (one, other)]
    assert total[0] == total[1] or one.text is not None


@pytest.mark.forks
@pytest.mark.requirement("GATE-6")
@pytest.mark.parametrize("example", variants(EXAMPLES, quick=FIXED_OFTEN), indirect=True)
def test_planning_fixes_its_rows_in_the_units_of_the_source(example: Example, tmp_path: Path) -> None:
    """What training standardises is written as the file has it: an exported model takes such inputs."""
    data = {"use": example.use, "args": example.values()}
    config = parse_config({"model": {"use": "mlp"}, "data": data})
    specification = RunSpecification(
        run_id="smoke", project="p", kind=RunKind.SMOKE, config=config, config_digest="", code_root=str(tmp_path)
    )
    run = RunDirectory.create(tmp_path / "smoke", specification)
    fix_rows(run, specification, 1, StopRequest(run.stop_reason))
    record, splits = run.part(FixedRows), build_data(config, tmp_path)
    assert record.problem is None
    for name in ("validation", "test"):
        fixed, samples = record.splits[name], splits.samples[name]
        assert fixed.size == fixed.rows == len(samples)
        inputs = {name: read(run, array) for name, array in fixed.inputs.items()}
        targets = read(run, fixed.target) if fixed.target is not None else []
        assert {len(rows) for rows in (*inputs.values(), targets)} == {fixed.rows}
        for row in range(0, len(samples), 7):
            with seeding.preserved():  # a source that draws is drawn from as every evaluation does
                seeding.seed_sample(config.data.split.seed, 0, row, *seeding.of_split(seeding.SPLITS.index(name)))
                expected = plain_sample(getattr(samples, "raw", samples)[row])
            assert np.array_equal(targets[row], expected.target)
            for key, value in expected.inputs.items():
                assert np.array_equal(inputs[key][row], value)


def read(run: RunDirectory, array: Array) -> Any:
    """Return an array's rows, those of different shapes in a list."""
    path = run.artifacts / array.path
    assert hashlib.sha256(path.read_bytes()).hexdigest() == array.digest
    rows = np.load(path, allow_pickle=False)
    if array.shapes is None:
        return rows
    shapes = np.load(run.artifacts / array.shapes.path)
    ends = np.cumsum(shapes.prod(axis=1))
    return [part.reshape(shape) for part, shape in zip(np.split(rows, ends[:-1]), shapes, strict=True)]


@pytest.mark.requirement("PIPE-2")
def test_it_scans_its_rows_as_they_are_in_the_order_of_its_samples(example: Example, tmp_path: Path) -> None:
    source = type_of(example).model_validate(example.values())
    frame = source.scan(tmp_path)
    if example.args not in (NUMBERS, TEXTS):  # another form, which may have no table of rows
        return
    assert frame is not None
    rows = frame.collect()
    assert rows.columns == table(1).column_names
    assert rows["text"].to_list() == table(1)["text"].to_pylist()
    if example.args == NUMBERS:
        samples = source.load(tmp_path, SplitSection()).samples
        assert np.allclose(rows.select("width", "height").to_numpy(), samples.column(0).numpy())


@of_files
@pytest.mark.requirement("REPRO-4", "PHASE-8")
def test_other_values_are_another_fingerprint_and_another_file(example: Example, tmp_path: Path) -> None:
    before = data_evidence(loaded(example, tmp_path), tmp_path)
    example.write(tmp_path / str(example.path), 2)
    after = data_evidence(loaded(example, tmp_path), tmp_path)
    assert after.fingerprint != before.fingerprint
    assert after.files != before.files


@of_files
@pytest.mark.requirement("PIPE-2", "GATE-5")
def test_a_path_that_is_not_there_or_leads_out_is_refused(example: Example, tmp_path: Path) -> None:
    wrong = str(example.path).replace("things", "thigns")
    outside = tmp_path.with_name(f"{tmp_path.name}-outside")
    for path, told in ((wrong, f"Near: {example.path}"), (f"../{outside.name}", "outside the code root")):
        with pytest.raises(ConfigurationError, match=told) as caught:
            loaded(example, tmp_path, **example.at(path))
        assert path in caught.value.message
        assert f"data.args.{example.key}" in caught.value.message
        assert caught.value.remedy


@of_files
@pytest.mark.requirement("PIPE-2", "TRAIN-1")
def test_a_broken_file_is_named_and_nothing_is_loaded(example: Example, tmp_path: Path) -> None:
    example.spoil(tmp_path / str(example.path))
    with pytest.raises(DataError) as caught:
        loaded(example, tmp_path)
    assert "cannot be read" in caught.value.message
    assert caught.value.remedy
    named = caught.value.message.partition(" cannot be read")[0].rpartition(" ")[2]
    assert (tmp_path / str(example.path) / named).exists() or named == Path(str(example.path)).name


@pytest.mark.requirement("CONF-1")
def test_its_options_are_closed_and_each_has_a_rule(example: Example, tmp_path: Path) -> None:
    with pytest.raises(TrainwrightError, match="unknown key `data.args.zzz`"):
        loaded(example, tmp_path, zzz=1)
    for key in type_of(example).model_fields:
        with pytest.raises(ConfigurationError, match=rf"`data\.args\.{key}.*`.*= -0\.5: .+"):
            loaded(example, tmp_path, **{key: -0.5})
