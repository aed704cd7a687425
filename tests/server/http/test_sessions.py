"""Sessions of older clients: a token has so many, and those of others stay."""

import pytest
from tests.server.http.conftest import serving

from trainwright.server.http import limits as limit
from trainwright.server.http import serving as server
from trainwright.server.http.limits import Limits
from trainwright.server.http.tokens import Holder, Tokens

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-4")]
MOST = 3


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(limit, "MAX_OF_A_TOKEN", MOST)


def test_no_token_takes_the_sessions_of_others(tmp_path, monkeypatch, sessions):
    monkeypatch.setattr(server, "MAX_SESSIONS", 1 + MOST + 1)
    with serving(tmp_path / "workspace") as served:
        kept = sessions(served, served.token("calm"))
        for _ in range(3 * MOST):
            sessions(served, served.token("hasty", "read"))
        assert kept.asked() == 200


def test_the_session_that_was_used_longest_ago_ends(served, sessions):
    token = served.token("maker")
    first, second, third = (sessions(served, token) for _ in range(MOST))
    assert first.asked() == 200
    fourth = sessions(served, token)
    assert [one.asked() for one in (first, second, third, fourth)] == [200, 404, 200, 200]


def test_a_session_with_a_stream_is_not_ended(served, sessions):
    token = served.token("streamer")
    streaming, second, third = (sessions(served, token) for _ in range(MOST))
    with streaming.stream() as stream:
        assert stream.status_code == 200
        assert [one.asked() for one in (second, third)] == [200, 200]
        sessions(served, token)
        assert [one.asked() for one in (streaming, second, third)] == [200, 404, 200]


def test_a_session_that_its_client_ended_gives_its_place_back(served, sessions):
    token = served.token("tidy")
    first, second, third = (sessions(served, token) for _ in range(MOST))
    assert third.end() == 200
    sessions(served, token)
    assert [one.asked() for one in (first, second, third)] == [200, 200, 404]


async def test_what_is_counted_of_a_token_is_forgotten_after_its_end(tmp_path):
    async def application(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def unheard(message):
        pass

    tokens = Tokens(tmp_path)
    limits = Limits(application, tokens)
    for name in ("first", "second", "third"):
        holder = Holder.of(tokens.of(tokens.new(name, "read")))
        user = type("User", (), {"access_token": holder})()
        await limits({"type": "http", "method": "GET", "headers": [], "user": user}, unheard, unheard)
        if name != "third":
            assert len(limits._buckets) == 1
        tokens.revoke(name) if name == "first" else None
    assert len(limits._buckets) == 2
