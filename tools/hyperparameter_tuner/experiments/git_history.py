"""History of a project's experiments in git: a commit for each state of the code, on the state it was compared with.

Under refs of their own, so that no branch, index or file of the user's changes: `git diff` compares any two states and
`git checkout REF -- .` brings one back. The dates are the experiments', so the same history has the same commits.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from sqlalchemy.orm import Session

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.ideas import Experiment, digests_of_snapshot, experiments_of
from trainwright.tools.ledger import Look
from trainwright.tools.training_orchestrator.snapshots import snapshot_folder
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError, StorageError

SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""Nothing that the repository's configuration names is run."""


def write_history(workspace: Workspace, project: str) -> dict[str, str]:
    """Write a commit for each experiment whose snapshot is there; return {ref: the experiment in one line}.

    Raises:
        ConfigurationError: the code root is in no git repository, or git is not installed.
        IntegrityError: a snapshot was edited.
        StorageError: git failed, or does not say what it ignores; with what it said.
    """
    with workspace.snapshot() as session:
        evidence = Evidence(session, workspace, project, inspection=Look())
        root, written = evidence.code_root, dict[str, str]()
        within = _within_repository(root)
        stream = b"".join(_commits(session, evidence, within, written))
    done = _git(root, "fast-import", "--force", "--quiet", given=stream)
    if done.returncode:
        raise StorageError(
            f"git did not take the history: {done.stderr.decode(errors='replace')[:300].strip()}.",
            remedy=f"`git -C {root} fsck` checks the repository.",
        )
    return written


def _git(root: Path, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *SAFE, "-C", str(root), *arguments], input=given, capture_output=True, check=False)


def _left_out(root: Path, names: Sequence[str]) -> set[str]:
    """Return the files that may hold secrets: ignored ones, links, and settings or folders by now gone, which may be.

    Raises StorageError as `_ignored` does.
    """
    linked = {name for name in names if (root / name).is_symlink()}
    gone = {
        name for name in names
        if not ((root / name).is_file() or (name.endswith(".py") and (root / name).parent.is_dir()))
    }  # fmt: skip
    return linked | gone | _ignored(root, sorted({*names} - linked - gone))


def _ignored(root: Path, names: Sequence[str]) -> set[str]:
    """Return which files git ignores, such as settings that hold secrets. Raises StorageError when git cannot say.

    Each is asked for in its own folder: git answers for none of a list where one lies in another repository.
    """
    by_folder: dict[PurePosixPath, list[PurePosixPath]] = {}
    for name in map(PurePosixPath, names):
        by_folder.setdefault(name.parent, []).append(name)
    ignored = set[str]()
    for folder, own in by_folder.items():
        asked = "\0".join(str(name.relative_to(folder)) for name in own).encode()
        done = _git(root / folder, "check-ignore", "-z", "--stdin", given=asked)
        if done.returncode > 1:
            raise StorageError(
                f"git does not say what it ignores in {folder}: {done.stderr.decode(errors='replace')[:300].strip()}.",
                remedy=f"`git -C {root / folder} status` shows why; nothing was written, since secrets may be ignored.",
            )
        ignored |= {str(folder / one) for one in done.stdout.decode().split("\0") if one}
    return ignored


def _within_repository(root: Path) -> str:
    """Return the code root's path below the top of its repository: `` or `src/`."""
    if shutil.which("git") is None:
        raise ConfigurationError("git is not installed.", remedy="Install git; experiments.md lists the folders.")
    found = _git(root, "rev-parse", "--show-prefix")
    if found.returncode:
        said = found.stderr.decode(errors="replace").strip()[:300]
        remedy = "Where there is none, `git init` makes one there."
        raise ConfigurationError(f"git takes {root} for no repository: {said}", remedy=remedy)
    return found.stdout.decode().strip()


def _commits(session: Session, evidence: Evidence, within: str, written: dict[str, str]) -> Iterator[bytes]:
    """Give the stream that `git fast-import` takes, and note each commit's ref."""
    left_out = set[str]()
    for one in experiments_of(evidence):
        at = int(get_study(session, one.study).created_at.timestamp())
        try:
            before = snapshot_folder(evidence.workspace, evidence.name, one.against_code)
            here = snapshot_folder(evidence.workspace, evidence.name, one.code)
        except NotFoundError:
            continue
        names = digests_of_snapshot(before) | digests_of_snapshot(here)
        left_out |= _left_out(evidence.code_root, list(names))
        parent = _ref(evidence.name, one.against, one.against_code)
        if parent not in written:
            yield _commit(parent, None, at, f"{one.against}\n", _files(before, within, left_out))
            written[parent] = f"{one.against}, which {one.name} was compared with"
        ref = _ref(evidence.name, one.name, one.code)
        changes = f"\nchanges: {json.dumps(one.changes, sort_keys=True)}\n" if one.changes else ""
        yield _commit(ref, parent, at, f"{one.idea}\n\n{one.told()}\n{changes}", _files(here, within, left_out))
        written[ref] = one.told()


def _files(folder: Path, within: str, left_out: set[str]) -> dict[str, bytes]:
    """Return the contents of a snapshot's files by their paths in the repository."""
    return {
        within + name: (folder / name).read_bytes() for name in sorted(digests_of_snapshot(folder).keys() - left_out)
    }


def _ref(project: str, name: str, code: str) -> str:
    """Return the ref of a state; of `planned`, which a later plan replaces, with its code."""
    is_planned = name == Experiment.of_plan(code).name
    return f"refs/trainwright/{project}/{name}{'-' + code[-8:] if is_planned else ''}"


def _commit(ref: str, parent: str | None, at: int, message: str, files: Mapping[str, bytes]) -> bytes:
    who = f"Trainwright <trainwright@localhost> {at} +0000".encode()
    text = message.encode()
    lines = [b"commit " + ref.encode(), b"committer " + who, b"data %d" % len(text), text]
    lines += [b"from " + parent.encode()] if parent is not None else []
    lines.append(b"deleteall")
    for name, content in files.items():
        lines += [b"M 100644 inline " + _quoted(name), b"data %d" % len(content), content]
    return b"\n".join(lines) + b"\n"


def _quoted(name: str) -> bytes:
    """Return a path as fast-import reads it, whatever signs are in it."""
    return b'"' + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode() + b'"'
