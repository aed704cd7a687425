"""Tokens: made once, kept as digests, and over at once when they are revoked or expire."""

import json
import stat
from contextlib import suppress

import httpx
import pytest
from mcp.client.subscriptions import SubscriptionLost

from trainwright.server.http.tokens import Tokens
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError

pytestmark = pytest.mark.requirement("MCP-4")


def test_only_a_digest_is_kept_in_a_file_for_the_owner_alone(tmp_path):
    secret = Tokens(tmp_path).new("laptop", "read", ("digits",))
    path = tmp_path / "tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret not in path.read_text()
    (kept,) = json.loads(path.read_text())["tokens"]
    assert (kept["name"], kept["scope"], kept["projects"]) == ("laptop", "read", ["digits"])
    assert Tokens(tmp_path).of(secret).access.projects == ("digits",)
    assert len(secret) > 43
    assert Tokens(tmp_path).of(secret[:-1]) is None


def test_a_change_counts_from_the_next_look_on(tmp_path):
    ours, theirs = Tokens(tmp_path), Tokens(tmp_path)
    first, second = ours.new("first", "read"), ours.new("second", "own")
    assert theirs.of(first) is not None
    ours.revoke("first")
    assert theirs.of(first) is None
    assert theirs.of(second).scope == "own"


def test_a_token_expires(tmp_path):
    tokens = Tokens(tmp_path)
    assert tokens.of(tokens.new("short", "read", days=1e-9)) is None
    assert tokens.all()[0].is_expired


def test_a_damaged_file_lets_nobody_in(tmp_path):
    tokens = Tokens(tmp_path)
    secret = tokens.new("laptop", "read")
    (tmp_path / "tokens.json").write_text("{")
    assert tokens.of(secret) is None


def test_names_are_refused_with_the_rule_and_the_remedy(tmp_path):
    tokens = Tokens(tmp_path)
    tokens.new("laptop", "read")
    with pytest.raises(ConflictError) as taken:
        tokens.new("laptop", "own")
    assert "tokens revoke laptop" in taken.value.remedy
    with pytest.raises(NotFoundError) as missing:
        tokens.revoke("latop")
    assert "Did you mean laptop?" in missing.value.remedy
    for name, days in (("Laptop!", 1), ("x", 0), ("x", 1e6)):
        with pytest.raises(ConfigurationError):
            tokens.new(name, "read", days=days)


@pytest.mark.slow
async def test_a_stream_that_is_open_ends_with_its_token_in_both_eras(served):
    token = served.token("leaver")
    asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    began = served.post(token, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked})
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    headers["Mcp-Session-Id"] = began.headers["mcp-session-id"]
    async with served.agent(token) as agent, httpx.AsyncClient(timeout=60) as http:
        async with (
            agent.client.listen(resource_subscriptions=["trainwright://projects/x/status"]) as changes,
            http.stream("GET", served.address, headers=headers) as stream,
        ):
            assert stream.status_code == 200
            served.tokens.revoke("leaver")
            with suppress(httpx.RemoteProtocolError):
                async for _ in stream.aiter_bytes():
                    pass
            with pytest.raises(SubscriptionLost):
                async for _ in changes:
                    pass
        assert served.post(token).status_code == 401
