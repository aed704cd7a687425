"""The final model's provenance: what other tools read of it, and that a forged one is named."""

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
from trainwright.tools.provenance import attest, attesting
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.signing import VARIABLE, new_key, public_path
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import ConflictError, IntegrityError

NAME = "flowers"
PROVENANCE = ("final_model.intoto.json",)
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
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (folder / "final_model").rglob("*")
        if path.is_file()
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
def test_what_is_not_finished_or_worked_on_again_is_not_attested(at: At) -> None:
    with pytest.raises(ConflictError, match="is in finalization"):
        attest(at("exported"), NAME)
    workspace = at("finished")
    written = (workspace.project_folder(NAME) / "final_model.intoto.json").read_bytes()
    projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 0.5}, reason="later", begin_release=True)
    with pytest.raises(ConflictError, match="is in planning"):
        attest(workspace, NAME)
    assert (workspace.project_folder(NAME) / "final_model.intoto.json").read_bytes() == written


def swap_once_found_fresh(monkeypatch: pytest.MonkeyPatch, swap: Callable[[], object]) -> None:
    """Swap a file in the moment after all gates were found to be fresh, and before anything of it is signed."""
    found = attesting._finished

    def finished(*arguments: Any) -> Any:
        result = found(*arguments)
        swap()
        return result

    monkeypatch.setattr(attesting, "_finished", finished)


@pytest.mark.requirement("GATE-3", "GATE-5", "PHASE-8")
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("final_model/model.safetensors", b"better weights"),
        ("final_model/better.safetensors", b"added"),
        ("final_model/metrics.json", None),
    ],
)
def test_a_file_that_is_swapped_once_the_gates_were_found_fresh_is_not_attested(
    at: At, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes | None
) -> None:
    workspace = at("finished")
    path = workspace.project_folder(NAME) / name
    with workspace.session() as session:
        before = entries(session, NAME, "attestation")
    swap_once_found_fresh(monkeypatch, lambda: path.unlink() if content is None else path.write_bytes(content))
    with pytest.raises(IntegrityError, match=f"Not what finalization recorded: {name}"):
        attest(workspace, NAME)
    with workspace.session() as session:
        assert entries(session, NAME, "attestation") == before


@pytest.mark.requirement("GATE-3", "GATE-5", "PHASE-8")
@pytest.mark.parametrize("name", ["artifacts/environment.json", "artifacts/code.json", "status.json"])
def test_a_record_that_is_swapped_then_is_not_told_in_the_statement(
    at: At, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    workspace = at("finished")
    (final,) = workspace.project_folder(NAME).glob("runs/baseline-*")
    value = json.loads((final / name).read_text())
    swap_once_found_fresh(monkeypatch, lambda: (final / name).write_text(json.dumps(value | {"digest": "blake3:00"})))
    with pytest.raises(IntegrityError, match=f"{name} of run {final.name} is not what was sealed"):
        attest(workspace, NAME)


@pytest.mark.requirement("GATE-3", "PHASE-6")
def test_passing_the_last_gate_writes_it_as_a_recorded_artifact(at: At) -> None:
    workspace = at("exported")
    answer = projects.pass_gate(workspace, NAME, "finalization")
    assert set(PROVENANCE) <= set(answer.artifacts)
    with workspace.session() as session:
        ((_, body),) = entries(session, NAME, "attestation")
    folder = workspace.project_folder(NAME)
    assert body["artifacts"] == {name: digest_file(folder / name) for name in PROVENANCE}
    assert body["finalization"] == answer.ledger_sequence
    report = verify_workspace(workspace.path)
    assert report.findings == []
    assert report.checked["provenance_statements"] == 1
    for name in PROVENANCE:
        (folder / name).unlink()
    removed = {f"project {NAME}: artifact {name} was removed" for name in PROVENANCE}
    assert removed <= set(verify_workspace(workspace.path).problems)
    attest(workspace, NAME)  # after a crash, or a removal
    assert verify_workspace(workspace.path).findings == []


@pytest.mark.requirement("PHASE-11", "GATE-3")
def test_a_release_is_attested_whatever_has_changed_around_it_since(at: At) -> None:
    workspace = at("finished")
    with workspace.session() as session:
        before = entries(session, NAME, "attestation")
    (workspace.path.parent / "code" / "flower_model.py").unlink()
    attest(workspace, NAME)
    with workspace.session() as session:
        after = entries(session, NAME, "attestation")
    assert len(after) == len(before) + 1
    assert after[-1][1]["finalization"] == before[-1][1]["finalization"]
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("PHASE-6", "GATE-3")
def test_a_provenance_that_cannot_be_written_leaves_the_gate_passed(at: At) -> None:
    workspace = at("exported")
    in_the_way = workspace.project_folder(NAME) / "final_model.intoto.json"
    in_the_way.mkdir()
    answer = projects.pass_gate(workspace, NAME, "finalization")
    assert (answer.now_in, set(PROVENANCE) & set(answer.artifacts)) == ("finished", set())
