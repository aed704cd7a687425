"""The final model's provenance statement: what other tools read of it, and that a forged one is named."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from trainwright.tools import projects
from trainwright.tools.ledger import entries
from trainwright.tools.ledger.signing import VARIABLE, new_key, public_path
from trainwright.tools.ledger.verification import verify_workspace
from trainwright.tools.provenance import attest
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.errors import ConflictError

NAME = "flowers"
At = Callable[[str], Workspace]


@pytest.fixture(autouse=True)
def no_key_of_the_developer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    monkeypatch.delenv(VARIABLE, raising=False)


def provenance_findings(workspace: Workspace, public: Path | None = None) -> list[tuple[str, bool]]:
    found = verify_workspace(workspace.path, public).findings
    return [(finding.what, finding.counts) for finding in found if finding.where == "provenance"]


def digests(statement: dict[str, Any]) -> dict[str, dict[str, str]]:
    definition = statement["predicate"]["buildDefinition"]
    return {one["name"]: one["digest"] for one in definition["resolvedDependencies"]}


@pytest.mark.requirement("GATE-3")
def test_the_statement_names_files_materials_and_decisions(at: At) -> None:
    workspace = at("finished")
    done = attest(workspace, NAME)
    assert done.key is None
    statement = json.loads(Path(done.path).read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    folder = workspace.project_folder(NAME)
    expected = {
        f"final_model/{path.name}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (folder / "final_model").iterdir()
    }
    assert {one["name"]: one["digest"]["sha256"] for one in statement["subject"]} == expected
    with workspace.session() as session:
        rested_on = next(body["rested_on"] for _, body in entries(session, NAME, "gate"))
        gates = {body["phase"]: sequence for sequence, body in entries(session, NAME, "gate")}
        recorded = {f"gate/{phase}": session.get_one(LedgerEntry, number).digest for phase, number in gates.items()}
    materials = digests(statement)
    assert {"data/iris.csv", "code/flower_model.py", "configuration"} <= materials.keys()
    for name in ("data", "code", "environment"):
        assert materials[name] == {"blake3": rested_on[name].removeprefix("blake3:")}
    made = {one["name"]: one["digest"] for one in statement["predicate"]["runDetails"]["byproducts"]}
    assert made.keys() == recorded.keys() | {"ledger"}
    for name, digest in recorded.items():
        assert made[name] == {"blake3": digest.removeprefix("blake3:")}
    report = verify_workspace(workspace.path)
    assert report.findings == []
    assert report.checked["provenance_statements"] == 1


@pytest.mark.requirement("GATE-3")
def test_a_signed_statement_is_an_envelope_that_standard_tools_check(
    at: At, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, other = tmp_path / "owner.key", tmp_path / "other.key"
    signer = new_key(key)
    new_key(other)
    monkeypatch.setenv(VARIABLE, str(key))
    workspace = at("finished")
    assert attest(workspace, NAME).key == signer.public.id
    envelope = json.loads((workspace.project_folder(NAME) / "final_model.intoto.json").read_text())
    payload = base64.b64decode(envelope["payload"])
    signed = b" ".join([b"DSSEv1", b"28", b"application/vnd.in-toto+json", b"%d" % len(payload), payload])
    public: Any = load_pem_public_key(public_path(key).read_bytes())
    public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed)  # raises when it does not fit
    assert provenance_findings(workspace, public_path(key)) == []
    (found,) = provenance_findings(workspace, public_path(other))
    assert "is not signed by key" in found[0]


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_statement_edited_with_its_ledger_entry_is_named_by_the_files_and_entries_it_points_to(at: At) -> None:
    workspace = at("finished")
    attest(workspace, NAME)
    path = workspace.project_folder(NAME) / "final_model.intoto.json"
    statement = json.loads(path.read_text())
    statement["subject"][0]["digest"]["sha256"] = "0" * 64
    statement["predicate"]["runDetails"]["byproducts"][0]["digest"]["blake3"] = "0" * 64
    path.write_text(json.dumps(statement))
    told = [what for what, counts in provenance_findings(workspace) if counts]
    assert any(f"names {statement['subject'][0]['name']} with another digest" in what for what in told)
    assert any("points to ledger entry" in what for what in told)
    assert f"project {NAME}: artifact final_model.intoto.json was changed" in verify_workspace(workspace.path).problems


@pytest.mark.requirement("GATE-3", "PHASE-8")
def test_what_is_not_finished_or_stale_is_not_attested(at: At) -> None:
    with pytest.raises(ConflictError, match="is in finalization"):
        attest(at("exported"), NAME)
    workspace = at("finished")
    projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 0.5}, reason="later")
    with pytest.raises(ConflictError, match="is in planning"):
        attest(workspace, NAME)
    assert not (workspace.project_folder(NAME) / "final_model.intoto.json").exists()
