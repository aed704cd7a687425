"""A real server over HTTP on a free port, in a thread of this process, and clients of both eras."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests.server.conftest import IRIS, Agent

from trainwright.server.http.serving import HttpServer, Reach
from trainwright.server.http.tokens import Tokens

HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}


class Served:
    """A server that runs, its workspace and its tokens by name."""

    def __init__(self, workspace: Path, address: str) -> None:
        self.workspace, self.address = workspace, address
        self.tokens = Tokens(workspace)
        self.secrets: dict[str, str] = {}

    def token(self, name: str, scope: Any = "operate", *projects: str, days: float = 1) -> str:
        """Make a token of this name, once."""
        if name not in self.secrets:
            self.secrets[name] = self.tokens.new(name, scope, projects, days)
        return self.secrets[name]

    @asynccontextmanager
    async def agent(self, token: str, **options: Any) -> AsyncIterator[Agent]:
        """Connect a client with this token."""
        async with (
            create_mcp_http_client({"Authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(self.address, http_client=http), **options) as client,
        ):
            yield Agent(client)

    def post(self, token: str | None = None, body: Any = LIST, **headers: str) -> httpx.Response:
        """Send one message of the older revisions as it is."""
        given = {**HEADERS, **({"Authorization": f"Bearer {token}"} if token else {}), **headers}
        return httpx.post(self.address, json=body, headers=given)


@contextmanager
def serving(workspace: Path, reach: Reach | None = None, **options: Any) -> Iterator[Served]:
    """Serve a workspace in a thread."""
    server = HttpServer(workspace, reach or Reach(), **options)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield Served(workspace, server.address)
    finally:
        server.stop()
        thread.join(30)


class Session:
    """A session of an older client, on connections of its own."""

    def __init__(self, http: httpx.Client, address: str) -> None:
        self._http, self._address = http, address

    def asked(self) -> int:
        """Ask something in it; return the status of the answer."""
        return self._http.post(self._address, json={"jsonrpc": "2.0", "id": 2, "method": "ping"}).status_code

    def end(self) -> int:
        """End it as a client does."""
        return self._http.delete(self._address).status_code

    def stream(self) -> AbstractContextManager[httpx.Response]:
        """Open the stream in which the server speaks."""
        return self._http.stream("GET", self._address, headers={"Accept": "text/event-stream"})


@pytest.fixture
def sessions() -> Iterator[Callable[[Served, str], Session]]:
    """How a session is opened with a token."""
    with ExitStack() as opened:

        def open_one(served: Served, token: str) -> Session:
            began = served.post(token, INITIALIZE)
            named = {"Authorization": f"Bearer {token}", "Mcp-Session-Id": began.headers["mcp-session-id"]}
            http = opened.enter_context(httpx.Client(headers={**HEADERS, **named}, timeout=10))
            return Session(http, served.address)

        yield open_one


OpenAgent = Callable[..., AbstractAsyncContextManager[Agent]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a file."""
    with serving(tmp_path_factory.mktemp("served") / "workspace") as found:
        yield found


@pytest.fixture
async def projects(served: Served) -> tuple[str, str]:
    """Two projects on the server."""
    async with served.agent(served.token("maker")) as agent:
        listed = (await agent.get("project_status"))["projects"]
        for name in {"first", "second"} - {project["project"] for project in listed}:
            await agent.project(name, IRIS)
    return "first", "second"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for box.example.org and 127.0.0.1, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "box")])
    names = [x509.DNSName("box.example.org"), x509.DNSName("*.x.org"), x509.IPAddress(ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return folder / "cert.pem", folder / "key.pem"
