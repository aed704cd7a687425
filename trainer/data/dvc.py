"""Data that DVC tracks: pulled by its own command line where they are absent, and DVC's digests of what was read.

A path is tracked where `PATH.dvc` is beside it or one of its folders, or a dvc.lock above names it among its outputs.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.base.sidecar_files import read_beside

PROGRAM = "TRAINWRIGHT_DVC"
"""Variable of the environment: the path of dvc, where it is not on PATH."""
PATTERN = re.compile(r"[*?\[]")
TIMEOUT_SECONDS = 3600.0
MAX_CHARACTERS = 300
NO_PROGRAM = "Install it (pip install dvc, or in an environment of its own), or let {variable} name its program."


def pull_tracked(path: Path, code_root: Path) -> bool:
    """Let DVC pull a path that it tracks and that is absent; return whether it was.

    Raises:
        ConfigurationError: there is no dvc program.
        DataError: DVC cannot pull it: no remote, no access, or not there.
    """
    if path.exists() or (target := tracked_by(path, code_root)) is None:
        return False
    program = dvc_program()
    command = [program, "pull", "--no-run-cache", str(target)]
    environment = os.environ | {"DVC_NO_ANALYTICS": "1"}
    try:
        ended = subprocess.run(
            command,
            cwd=code_root,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_pulled(path, code_root, str(error)) from error
    if ended.returncode or not path.exists():
        raise _not_pulled(path, code_root, ended.stderr or ended.stdout or "it is still absent")
    return True


def tracked_places(path: str, code_root: Path) -> list[Path]:
    """Return what may be tracked behind a path as it is given: itself; of a pattern, its folder and what fits it."""
    wild = next((place for place, part in enumerate(Path(path).parts) if PATTERN.search(part)), None)
    if wild is None or (code_root / path).exists():
        return [code_root / path]
    folder = code_root.joinpath(*Path(path).parts[:wild])
    return [folder, *(record.with_suffix("") for record in sorted(code_root.glob(f"{path}.dvc")))]


def dvc_program() -> str:
    """Return the path of the dvc program. Raises ConfigurationError."""
    found = os.environ.get(PROGRAM) or shutil.which("dvc")
    if found is None or not shutil.which(found):
        raise ConfigurationError(
            f"The data are tracked by DVC and absent, and there is no dvc program{f' at {found}' if found else ''}.",
            remedy=NO_PROGRAM.format(variable=PROGRAM),
        )
    return found


def tracked_by(path: Path, code_root: Path) -> Path | None:
    """Return what `dvc pull` is given for a path: its `.dvc` file, or itself as a stage's output; None: untracked."""
    found = next(_records(path, code_root), None)
    return None if found is None else found[0] if found[0].suffix == ".dvc" else path


def tracked_digests(files: list[Path], code_root: Path) -> dict[str, str]:
    """Return DVC's digest of each tracked file or folder, by path below the code root: `md5:…`."""
    found: dict[str, str] = {}
    for path in files:
        for _, output, digest in _records(path, code_root):
            if output.is_relative_to(code_root) and digest:
                found[output.relative_to(code_root).as_posix()] = digest
            break
    return found


def _records(path: Path, code_root: Path) -> Iterator[tuple[Path, Path, str]]:
    """Yield (file of DVC, the output that holds the path, its digest), the nearest first."""
    root = code_root.resolve()
    wanted = root / path if not path.is_absolute() else path
    places = [place for place in (wanted, *wanted.parents) if place.is_relative_to(root) and place != root]
    for place in places:
        record = place.with_name(place.name + ".dvc")
        for output, digest in _outputs(record):
            if output in {wanted, *wanted.parents}:
                yield record, output, digest
    for folder in (place.parent for place in places):
        for output, digest in _outputs(folder / "dvc.lock"):
            if output in {wanted, *wanted.parents}:
                yield folder / "dvc.lock", output, digest


def _outputs(record: Path) -> Iterator[tuple[Path, str]]:
    """Yield the outputs that a .dvc file or a dvc.lock names, with their digests; none of one that cannot be read."""
    try:
        found: Any = yaml.safe_load(read_beside(record))
    except yaml.YAMLError:
        return
    stages = found.get("stages") if isinstance(found, dict) else None
    parts = [found, *(stages.values() if isinstance(stages, dict) else [])]
    for part in parts:
        outs = part.get("outs") if isinstance(part, dict) else None
        for out in outs if isinstance(outs, list) else []:
            if isinstance(out, dict) and isinstance(out.get("path"), str):
                kind = str(out.get("hash") or "md5")
                yield record.parent / out["path"], f"{kind}:{out[kind]}" if out.get(kind) else ""


def _not_pulled(path: Path, code_root: Path, why: str) -> DataError:
    name = path.relative_to(code_root).as_posix() if path.is_relative_to(code_root) else path.name
    lines = [line.strip() for line in why.splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("ERROR")), lines[-1] if lines else "")
    return DataError(
        f"{name} is tracked by DVC and absent, and `dvc pull` did not bring it: {told[:MAX_CHARACTERS]}",
        remedy=f"Run `dvc pull {name}` in the code root yourself; `dvc remote list` shows the remotes, "
        "`dvc remote add -d NAME URL` names one, and its credentials belong to the environment or .dvc/config.local.",
    )
