"""Places of a request's data: the file that a sentence names, and the tables of a folder."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import files_under
from trainwright.trainer.catalog.names import COMPRESSED
from trainwright.trainer.catalog.names import FILES as FILES_OF
from trainwright.trainer.config.later_words import FILES, asked_later
from trainwright.trainer.data.images.walking import SUFFIXES
from trainwright.trainer.data.split_methods.given import split_named
from trainwright.trainer.data.split_methods.rows import NAMES
from trainwright.trainer.data.table.transform import TORN, unpacked

TABLES = ("csv", "jsonl", "parquet", "orc", "arrow", "excel")
"""Sources of tables."""
DOCUMENTS = frozenset({"", ".md", ".rst", ".txt", ".pdf", ".html", ".py", ".yaml", ".yml"})
"""Endings of what lies beside tables."""
SAVED = ("state.json", "dataset_dict.json")
"""What save_to_disk of Hugging Face's datasets writes into its folder, one of them."""
BESIDE_TEXTS = frozenset({"readme", "license", "licence", "notice", "requirements", "robots"})
"""Stems of .txt files that are no data."""
MAX_SHOWN, HEAD_BYTES = 4, 1000


def named_in(intent: str, root: Path) -> str | None:
    """Return the only file of data, or folder, under the root that a sentence names; None for none or several.

    What it names for after the release is none of them.
    """
    later = asked_later(intent)
    words = {word.rstrip("/") for word in FILES.findall(intent[: later.begin if later is not None else None])}
    inside = {word for word in words if is_inside(root, place_of(root, word))}
    return inside.pop() if len(inside) == 1 else None


def place_of(root: Path, name: str) -> Path | None:
    """Return where a file or folder is, links followed; None where none is, or no file system takes the name."""
    try:
        return (root / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None


def is_inside(root: Path, place: Path | None) -> bool:
    """Whether a place, links followed, lies below the root."""
    return place is not None and place.is_relative_to(root.resolve())


def tables_in(root: Path, folder: str) -> tuple[dict[str, Any], str] | None:
    """Return the data that a folder of nothing but tables of one header holds, and what is said of it; None otherwise.

    Of a folder of nothing but texts (.txt) these. Files that are named for splits, like train.csv and test.csv, are
    data that are split so.

    Raises:
        ConfigurationError: several tables of other columns, or some that are named for a split beside others.
    """
    place = place_of(root, folder)
    if place is None or not place.is_dir() or not is_inside(root, place):
        return None
    if any((place / name).is_file() for name in SAVED):
        return {"use": "arrow", "args": {"path": folder}}, f"{folder!r} is a data set written by save_to_disk"
    files = [name for name in files_under(place) if PurePosixPath(name).suffix.lower() not in DOCUMENTS]
    files = [name for name in files if not _is_settings(place / name)]
    every = files_under(place)
    if not files and (texts := [name for name in every if _is_text(name)]):
        return _texts(folder.rstrip("/"), texts, every)
    tables = sorted(name for name in files if "/" not in name and _source(name) in TABLES)
    if files and not any(_source(name) or PurePosixPath(name).suffix.lower() in SUFFIXES for name in files):
        raise unread(files)
    if not tables or len(tables) < len(files):
        return None
    folder = folder.rstrip("/")
    if len({(_ending(name), _header(place / name)) for name in tables}) > 1:
        raise _of_other_columns(folder, tables)
    if len(tables) == 1:
        return _data(f"{folder}/{tables[0]}"), f"the table of the folder is {tables[0]!r}"
    return _together(folder, tables)


def _is_text(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() == ".txt" and path.stem.lower() not in BESIDE_TEXTS


def _texts(folder: str, names: list[str], every: list[str]) -> tuple[dict[str, Any], str]:
    """Return the texts of a folder as data, which are split anew whatever they are named for."""
    named = sorted(name for name in names if split_named(name))
    anew = f"; {_some(named)} are named for a split, and are split anew" if named else ""
    deep = "**/" if any("/" in name for name in names) else ""
    is_all = len(names) == sum(name.lower().endswith(".txt") for name in every)
    path = [f"{folder}/{deep}*.txt"] if is_all else [f"{folder}/{name}" for name in names]
    data = {"use": "text", "args": {"path": path}}
    return data, f"the {len(names)} texts of {folder!r} are read as one{anew}"


def _together(folder: str, tables: list[str]) -> tuple[dict[str, Any], str]:
    """Return files of one header as data: split as their names say, or all of them together."""
    splits = {name: split_named(name) for name in tables}
    everything = f"{folder}/*{_ending(tables[0])}"
    tables = sorted((name for name in tables if splits[name]), key=lambda name: NAMES.index(splits[name] or ""))
    others = [name for name in splits if name not in tables]
    if len(named := {splits[name] for name in tables}) == 1 or "train" not in named:
        return _data(everything), f"the {len(splits)} files {everything} are read as one table, and split anew"
    if not others:
        said = ", ".join(f"{name} is {splits[name]}" for name in tables[:MAX_SHOWN])
        data = _data([f"{folder}/{name}" for name in tables])
        return {**data, "split": {"by": "given"}}, f"rows are split as the files' names say: {said}"
    raise ConfigurationError(
        f"{folder!r} holds files of one header that are named for a split ({_some(tables)}) and others "
        f"({_some(others)}).",
        remedy="Name the files of the split alone, data={'use': 'csv', 'args': {'path': [FILE, …]}, 'split': {'by': "
        f"'given'}}}}; or all of them to be split anew: data={everything!r}.",
        details={"tables": [*splits]},
    )


def _data(path: str | list[str]) -> dict[str, Any]:
    return {"use": _source(path if isinstance(path, str) else path[0]), "args": {"path": path}}


def _of_other_columns(folder: str, tables: list[str]) -> ConfigurationError:
    return ConfigurationError(
        f"{folder!r} holds {len(tables)} tables of other columns ({_some(tables)}), and a plan reads the rows of one.",
        remedy="Name the one with a row for each prediction. What others know of a row by then is joined to it first: "
        'by a script of yours, whose file you name, or by a database: data={"use": "sql", "args": {"url": '
        '"sqlite:///rows.db", "query": "SELECT … JOIN … ORDER BY …"}}.',
        document="configs/data_elsewhere.md",
        details={"tables": tables},
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:MAX_SHOWN]) + (", …" if len(names) > MAX_SHOWN else "")


def _ending(name: str) -> str:
    bare = COMPRESSED.sub("", name)
    return PurePosixPath(bare).suffix + name[len(bare) :]


def _is_settings(file: Path) -> bool:
    """Return whether a file is of JSON and no list of rows: it lies beside the tables."""
    if ".json" not in {one.lower() for one in file.suffixes}:
        return False
    try:
        with unpacked(file) as stream:
            return not stream.read(HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")
    except (OSError, ValueError, *TORN):
        return False  # reading says what is wrong with it


def unread(names: list[str]) -> ConfigurationError:
    """Return the refusal of files in a format that nothing here reads."""
    endings = dict.fromkeys(PurePosixPath(name).suffix or name for name in names)
    return ConfigurationError(
        f"{_some(names)}: {', '.join(endings)} is no format that is read here; known are {', '.join(FILES_OF)}, and "
        "folders of images.",
        remedy="Write the rows as a table, one value a cell; or a function that reads the files, as "
        "create_project(config={'data': {'use': 'rows.py:rows'}, …}).",
        document="configs/your_code.md",
    )


def unread_in(intent: str, root: Path) -> list[str]:
    """Return the files under the root that a sentence names, where nothing here reads any of them, and none is code."""
    words = [word.strip(".,;:!?()'\"") for word in intent.split() if "." in word[1:-1]]
    files = [word for word in dict.fromkeys(words) if (place := place_of(root, word)) and place.is_file()]
    is_read = any(_source(name) or PurePosixPath(name).suffix.lower() in DOCUMENTS for name in files)
    return [] if is_read else files


def _source(name: str) -> str | None:
    return FILES_OF.get(COMPRESSED.sub("", name).rpartition(".")[2].lower())


def _header(table: Path) -> bytes:
    """Return the first line of a table in text; of another, nothing: reading compares the columns."""
    if _source(table.name) != "csv":
        return b""
    try:
        with unpacked(table) as stream:
            return stream.readline(10_000).removeprefix(b"\xef\xbb\xbf").rstrip(b"\r\n")
    except (OSError, ValueError, *TORN):
        return b""  # reading says what is wrong with it
