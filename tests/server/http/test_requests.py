"""Requests as they come over the wire: whose, from where, how large, how many; and what is kept of them."""

import json
import stat

import httpx
import pytest
from tests.server.http.conftest import LIST

from trainwright.server.http import limits

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-4")]


def test_nobody_comes_in_without_a_token_and_the_refusal_says_where_tokens_are_for(served):
    answer = served.post()
    assert answer.status_code == 401
    metadata = answer.headers["www-authenticate"].partition('resource_metadata="')[2].rstrip('"')
    about = httpx.get(metadata).json()
    assert about["resource"] == served.address
    assert about["bearer_methods_supported"] == ["header"]


@pytest.mark.parametrize("token", ["tw_wrong", "Bearer", "tw_" + "A" * 43])
def test_a_wrong_token_lets_nobody_in(served, token):
    assert served.post(token).status_code == 401


def test_a_request_to_a_foreign_host_is_refused(served):
    assert served.post(served.token("wire"), Host="evil.example.org").status_code == 421


@pytest.mark.parametrize("origin", ["https://evil.example.org", "null", "http://127.0.0.1:1"])
def test_a_page_of_another_site_is_refused(served, origin):
    assert served.post(served.token("wire"), Origin=origin).status_code == 403


def test_a_request_that_is_too_large_is_refused_before_it_is_read(served):
    body = {**LIST, "params": {"filler": "x" * 5 * 2**20}}
    assert served.post(served.token("wire"), body).status_code == 413


def test_a_token_has_its_requests_a_second_and_another_is_not_held_up(served, monkeypatch):
    monkeypatch.setattr(limits, "REQUESTS_PER_SECOND", 0.01)
    monkeypatch.setattr(limits, "MAX_AT_ONCE", 3)
    hasty, calm = served.token("hasty"), served.token("calm")
    statuses = [served.post(hasty).status_code for _ in range(5)]
    assert 429 not in statuses[:3]
    assert statuses[3:] == [429, 429]
    refused = served.post(hasty)
    assert int(refused.headers["retry-after"]) > 1
    assert "requests a second" in refused.json()["error"]["message"]
    assert served.post(calm).status_code != 429


def test_a_token_has_so_many_requests_open_at_once(served, monkeypatch):
    monkeypatch.setattr(limits, "MAX_OPEN", 0)
    refused = served.post(served.token("wire"))
    assert refused.status_code == 429
    assert "are open" in refused.json()["error"]["message"]


async def test_the_audit_log_says_who_called_what_and_holds_neither_arguments_nor_tokens(served, projects):
    token = served.token("audited")
    async with served.agent(token) as agent:
        await agent.get("project_status", project="first")
        await agent.refusal("configure", project="second", changes={"training.epochs": "MANY"}, reason="my reason")
        await agent.client.read_resource("trainwright://projects/first/status")
        said = await agent.refusal("configure", project="first", reason=f"I was given {token}")
        assert "Trainwright token" in said
        assert token not in said
    log = served.workspace / "logs" / "http.jsonl"
    lines = [entry for entry in map(json.loads, log.read_text().splitlines()) if entry["token"] == "audited"]
    told = [(entry["method"], entry["tool"], entry["project"], entry["outcome"]) for entry in lines]
    assert told == [
        ("tools/call", "project_status", "first", "answered"),
        ("tools/call", "configure", "second", "refused"),
        ("tools/call", "project_status", None, "answered"),
        ("resources/read", None, "first", "answered"),
        ("tools/call", "configure", "first", "refused"),
        ("tools/call", "project_status", None, "answered"),
    ]
    assert all(entry["milliseconds"] >= 0 and entry["time"].startswith("20") for entry in lines)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    written = "".join(path.read_text(errors="replace") for path in served.workspace.rglob("*.json*"))
    written += "".join(path.read_text() for path in (served.workspace / "logs").iterdir())
    assert token not in written
    assert "my reason" not in log.read_text()
    assert "MANY" not in log.read_text()
