"""Signed entries: someone with the public key alone tells what the key's holder wrote from what was put there since."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.tools.hyperparameter_tuner.process import conductor_environment
from trainwright.tools.launchers.environment import inherited_environment
from trainwright.tools.ledger import append, copy_all_forward
from trainwright.tools.ledger.chain import digest_of
from trainwright.tools.verification import VerificationReport, verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.signing import VARIABLE, Signer, load_signer, new_key, public_path
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError

Write = Callable[[Path | None, int], None]


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The owner's key, outside of the workspace."""
    path = tmp_path / "owner" / "signing.key"
    new_key(path)
    return path


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that appends entries as a server with this key (or none) does."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))  # the developer's own key is not asked

    def append_entries(key: Path | None, count: int) -> None:
        monkeypatch.setenv(VARIABLE, str(key)) if key else monkeypatch.delenv(VARIABLE, raising=False)
        workspace = Workspace.open(tmp_path / "workspace")
        for number in range(count):
            with workspace.session() as session:
                append(session, "p", "note", {"number": number})
        workspace.close()
        monkeypatch.delenv(VARIABLE, raising=False)

    return append_entries


def verified(tmp_path: Path, key: Path | None) -> VerificationReport:
    return verify_workspace(tmp_path / "workspace", public_path(key) if key else None)


def rewrite(tmp_path: Path, signer: Signer | None) -> None:
    """Edit entry 2 and compute every hash, and the copy, anew; sign with another key, or keep the signatures."""
    workspace = Workspace.open(tmp_path / "workspace")
    previous = "genesis"
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        columns = "sequence, time, project, kind, body, signature"
        for row in connection.execute(f"SELECT {columns} FROM ledger ORDER BY sequence").fetchall():
            entry = LedgerEntry(**dict(zip(columns.split(", "), row, strict=True)), previous=previous)
            entry.body = entry.body if entry.sequence != 2 else '{"number":99}'
            entry.digest = digest_of(entry)
            entry.signature = signer.sign(entry.digest) if signer else entry.signature
            values = (entry.body, previous, entry.digest, entry.signature, entry.sequence)
            statement = "UPDATE ledger SET body = ?, previous = ?, digest = ?, signature = ? WHERE sequence = ?"
            connection.execute(statement, values)
            previous = entry.digest
        for _, sql in triggers:
            connection.execute(sql)
    (workspace.path / "projects" / "p" / "ledger.jsonl").unlink()
    copy_all_forward(workspace)
    workspace.close()


@pytest.mark.requirement("GATE-3")
def test_a_signed_ledger_is_attested_from_its_first_entry_to_its_last(tmp_path: Path, key: Path, write: Write) -> None:
    write(key, 4)
    report = verified(tmp_path, key)
    assert report.findings == []
    assert report.attested.endswith(": ledger entries 1 to 4.")
    assert "--public-key" in verified(tmp_path, None).attested


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_ledger_rewritten_to_the_last_hash_is_found_by_its_signatures_and_by_nothing_else(
    tmp_path: Path, key: Path, write: Write
) -> None:
    write(key, 4)
    rewrite(tmp_path, None)
    assert verified(tmp_path, None).problems == []
    report = verified(tmp_path, key)
    assert report.attested.endswith(": ledger entry 1.")
    assert report.problems == ["ledger entries 2 to 4 with a signature that does not fit"]


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_entries_signed_by_another_key_are_named(tmp_path: Path, key: Path, write: Write) -> None:
    write(key, 3)
    other = new_key(tmp_path / "other.key")
    rewrite(tmp_path, other)
    report = verified(tmp_path, key)
    assert report.attested == report.problems[0]
    assert report.attested.startswith("not attested: no entry is signed by key ")
    write(key, 1)
    assert f"ledger entries 1 to 3 signed by another key ({other.public.id})" in verified(tmp_path, key).problems


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_unsigned_entries_are_named_and_count_once_signing_has_begun(tmp_path: Path, key: Path, write: Write) -> None:
    write(None, 2)
    assert verified(tmp_path, None).attested.startswith("not attested: nothing is signed. Whoever can write")
    write(key, 2)
    report = verified(tmp_path, key)
    assert report.problems == []
    assert [finding.what for finding in report.findings] == [
        "ledger entries 1 to 2 not signed: written before the first signature, which covers them as they stood then"
    ]
    write(None, 1)
    write(key, 1)
    report = verified(tmp_path, key)
    assert report.problems == ["ledger entry 5 not signed"]
    assert report.attested.endswith(": ledger entries 3 to 4, 6.")


@pytest.mark.requirement("GATE-3")
def test_the_secret_key_is_its_owners_alone_and_is_never_overwritten(key: Path) -> None:
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o077 == 0
    before = key.read_bytes()
    with pytest.raises(ConflictError, match="a key at"):
        new_key(key)
    assert key.read_bytes() == before


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_key_that_others_may_read_that_lies_in_the_workspace_or_is_not_there_is_refused(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(key))
    assert load_signer(tmp_path / "workspace") is not None
    with pytest.raises(ConfigurationError, match="lies in the workspace"):
        load_signer(key.parent)
    key.chmod(0o640)
    with pytest.raises(ConfigurationError, match="mode 0640"):
        load_signer(tmp_path / "workspace")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone.key"))
    with pytest.raises(NotFoundError, match=r"gone\.key cannot be read"):
        load_signer(tmp_path / "workspace")
    monkeypatch.setenv(VARIABLE, str(public_path(key)))
    public_path(key).chmod(0o600)
    with pytest.raises(ConfigurationError, match="not an Ed25519 secret key"):
        load_signer(tmp_path / "workspace")


@pytest.mark.requirement("GATE-3", "SKILL-8")
def test_the_key_enters_no_worker_and_no_file_of_the_workspace(tmp_path: Path, key: Path, write: Write) -> None:
    assert inherited_environment({VARIABLE: str(key)}) == {}
    assert conductor_environment({VARIABLE: str(key)})[VARIABLE] == str(key)
    assert VARIABLE not in conductor_environment({})
    write(key, 2)
    secret = key.read_bytes().splitlines()[1]
    raw = base64.b64decode(secret)[-32:]
    files = [path for path in (tmp_path / "workspace").rglob("*") if path.is_file()]
    assert len(files) >= 3
    for path in files:
        content = path.read_bytes()
        assert secret not in content
        assert raw not in content
        assert str(key).encode() not in content
