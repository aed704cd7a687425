"""Who may read the page, and what it may do."""

from __future__ import annotations

import re

import pytest

from trainwright.server.dashboard.application import FOLDER, bundle

MAX_BYTES = 100 * 1024
MAKES_ELEMENTS = r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function"
PATHS = ("/", "/api/overview", "/api/projects/flowers", "/api/projects/flowers/ledger", "/api/events")


@pytest.mark.requirement("MON-2")
@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_of_the_workspace_is_read(served, path):
    for token in ({}, {"Cookie": f"{served.page.access.cookie}=guess"}):
        answer = served.ask(path, token=False, **token)
        assert answer.status == 401
        assert b"irises" not in answer.body
    assert served.ask("/?token=guess", token=False).status == 401
    assert served.ask("/api/overview?token=" + served.page.access.token, token=False).status == 401


def test_the_token_becomes_a_cookie_that_scripts_cannot_read_and_leaves_the_address(served):
    answer = served.ask(f"/?token={served.page.access.token}", token=False)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    assert served.ask("/", token=False, Cookie=cookie.partition(";")[0]).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1.evil.example:{port}", "[::1]:{port}"])
def test_a_name_that_was_made_to_resolve_to_this_machine_is_refused(served, host):
    answer = served.ask("/api/overview", Host=host.format(port=served.page.access.port))
    assert answer.status == 421


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}]
)
def test_other_sites_read_nothing(served, headers):
    answer = served.ask("/api/overview", **headers)
    assert answer.status == 403
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_it_only_reads(served, method):
    assert served.ask("/api/overview", method).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/settings.yaml", "/workspace.sqlite", "/api/documents/../../../etc/passwd",
        "/api/documents/%2e%2e/settings.yaml",
        "/api/runs/..%2f..%2fsettings", "/api/projects/..", "/page.css", "/api/documents//etc/passwd",
    ],
)  # fmt: skip
def test_it_serves_no_files(served, path):
    answer = served.ask(path)
    assert answer.status == 404
    assert b"root:" not in answer.body


def test_an_unknown_run_is_answered_with_a_remedy(served):
    answer = served.ask("/api/runs/none-there")
    assert answer.status == 404
    assert b"remedy" in answer.body


@pytest.mark.requirement("MON-2")
def test_the_page_is_one_small_file_that_needs_no_network_and_no_other_script(served):
    answer = served.ask("/")
    body, policy = answer.body, answer.headers["Content-Security-Policy"]
    assert len(body) <= MAX_BYTES
    assert "unsafe" not in policy
    assert policy.count("'sha256-") == 2
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert not re.findall(rb"(?:src|href)=[\"'](?!#|data:)", body)
    assert not re.findall(rb"https?://(?!www\.w3\.org|github\.com/leeoniya/uPlot)", body)


def test_the_page_never_makes_elements_of_text():
    ours = [path for path in FOLDER.glob("*.js") if not path.name.startswith("uPlot")]
    assert ours
    for path in ours:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", text), (
            path.name
        )


def test_what_is_vendored_is_named_with_its_licence():
    notice = (FOLDER / "uPlot.LICENSE.md").read_text(encoding="utf-8")
    assert "MIT" in notice
    assert "v1.6.32" in bundle().html
    assert "1.6.32" in notice


def test_reading_leaves_the_workspace_as_it_was(served):
    def files():
        found = (path for path in served.workspace.path.rglob("*") if path.is_file())
        return {path: path.stat().st_mtime_ns for path in found if not path.name.endswith(("-shm", "-wal"))}

    before = files()
    run = f"/api/runs/{served.smoke}"
    for path in (*PATHS[1:4], run, f"{run}/curves?keys=train/loss", "/api/documents/diagnostics/README.md"):
        served.read(path)
    assert files() == before


@pytest.mark.parametrize("digits", [16, 5000])
@pytest.mark.parametrize("path", ["/api/projects/flowers/ledger?before=", "/api/events?after="])
def test_a_number_of_too_many_digits_is_refused(served, path, digits):
    answer = served.ask(path + "9" * digits)
    assert answer.status == 400
    assert b"it may have 15" in answer.body
