"""Pages of runs and projects: one file each, without scripts or requests, in which a name is text whatever it says."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.worlds.flowers import NAME, finish

from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.projects.diagnosis import write_ended_page, write_pages
from trainwright.tools.reports.pages import has_new_page, writing
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evidence import Data

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MON-2")]

VOID = {"meta", "line", "path", "br"}


class Reader(HTMLParser):
    """Reads a page: its tags in order, attributes that could fetch something, and its text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.addresses, self.words = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in {"src", "href", "data", "action", "srcset"}]
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def read(path):
    page = Path(path).read_text(encoding="utf-8")
    assert len(page) < 1_000_000
    found = Reader(page)
    assert found.open == []
    return found, page


def test_diagnosing_writes_the_runs_page_and_the_projects_which_need_nothing_else(at):
    workspace = at("trained")
    answer = projects.diagnose(workspace, NAME)
    assert answer.page is not None
    assert answer.page.endswith(f"reports/{answer.run_id}.html")
    run, page = read(answer.page)
    project, _ = read(workspace.project_folder(NAME) / "report.html")
    for found in (run, project):
        assert "script" not in found.tags
        assert not [one for one in found.addresses if not re.fullmatch(r"reports/[\w.-]+\.html|[\w.]+\.md", one)]
    assert "@import" not in page
    assert "url(" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    with workspace.session() as session:
        head = session.query(LedgerEntry).order_by(LedgerEntry.sequence.desc()).first()
        assert head.digest in project.text


def test_a_runs_page_shows_curves_predictions_data_and_environment(at):
    workspace = at("trained")
    run, page = read(projects.diagnose(workspace, NAME).page)
    for heading in ("Curves", "Alerts", "Validation rows", "Data", "Environment", "Configuration"):
        assert heading in run.text
    assert page.count("<figure>") == 4
    assert "Permutation importance" in run.text
    assert "Worst rows, by cross entropy" in run.text
    assert "v1 (blake3:" in run.text
    assert "optimizer.learning_rate" in run.text or "learning_rate" in run.text


def test_a_projects_page_shows_gates_with_their_evidence_and_links_its_runs(at):
    workspace = at("based")
    write_pages(workspace, NAME)
    project, _ = read(workspace.project_folder(NAME) / "report.html")
    assert re.search(r"planning : passed , ledger entry \d+", project.text)
    with workspace.session() as session:
        from trainwright.tools.gates.phase_status import accepted_decisions

        decisions = accepted_decisions(Evidence(session, workspace, NAME))
        checks = [one for _, body in decisions.values() for one in body["checks"]]
    assert len(checks) > 5
    assert all(" ".join(one["measured"].split()) in project.text for one in checks)
    linked = [one for one in project.addresses if one.startswith("reports/")]
    assert linked
    assert all((workspace.project_folder(NAME) / one).is_file() for one in linked)


def test_passing_a_gate_writes_the_projects_page(at):
    workspace = at("trained")
    page = workspace.project_folder(NAME) / "report.html"
    page.unlink(missing_ok=True)
    projects.pass_gate(workspace, NAME)
    assert page.is_file()


def test_tags_in_names_are_text(at):
    workspace = at("trained")
    evil = '<script>alert(1)</script>"><img src=x onerror=alert(1)>'
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        evidence.project.intent = evil
        run = evidence.baseline
        run.directory.write_evidence(Data(source=evil, split={evil: evil}, class_names=[evil]))
        path = writing.write_run_page(evidence, run)
        project = writing.write_project_page(evidence)
        session.rollback()
    for page in (path, project):
        found, source = read(page)
        assert "script" not in found.tags
        assert "img" not in found.tags
        assert "&lt;script&gt;" in source
        assert "<script>alert(1)</script>" in found.text


def test_a_page_is_not_written_again_while_its_run_is_unchanged(at):
    workspace = at("trained")
    page = Path(projects.diagnose(workspace, NAME).page)
    page.write_text(page.read_text() + "<!-- kept -->")
    assert Path(projects.diagnose(workspace, NAME).page).read_text().endswith("<!-- kept -->")


def test_an_ended_runs_page_is_written_at_its_end_and_again_with_its_seal(at):
    workspace = at("planned")
    run = start_run(workspace, NAME, RunKind.BASELINE).run_id
    page = workspace.project_folder(NAME) / "reports" / f"{run}.html"
    directory = workspace.run_directory(NAME, run)
    while not directory.status().state.is_ended:
        write_ended_page(workspace, NAME, run)
        assert not page.exists()
        time.sleep(0.05)
    while directory.is_locked():
        time.sleep(0.05)
    write_ended_page(workspace, NAME, run)
    assert "Validation rows" in read(page)[0].text
    assert has_new_page(workspace, NAME, run) is None
    finish(workspace, run)
    projects.diagnose(workspace, NAME, run)
    assert has_new_page(workspace, NAME, run) == page
