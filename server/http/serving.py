"""Serving of MCP over Streamable HTTP: where it may be reached, and the server that answers there."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware import Middleware

from trainwright.server.app import build_server
from trainwright.server.http.connections import Listener, Server, settings
from trainwright.server.http.limits import Limits
from trainwright.server.http.pushes import pushes
from trainwright.server.http.releases import releases
from trainwright.server.http.tokens import Tokens, Verifier
from trainwright.server.listening import listening
from trainwright.server.stdio import StdioServer
from trainwright.trainer.base.errors import ConfigurationError

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PATH = "/mcp"
MAX_BODY_BYTES = 4 * 2**20
MAX_HEADER_BYTES = 64 * 2**10
MAX_SESSIONS = 512
"""Of clients of the older revisions, which open sessions; the newest has none."""
IDLE_SECONDS = 1800.0
STOP_SECONDS = 3


@dataclass(frozen=True)
class Reach:
    """Where the server may be reached: beyond this machine only encrypted."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    proxy: str | None = None
    """Address that clients use, where a proxy ends TLS before this server."""

    def __post_init__(self) -> None:
        """Check it. Raises ConfigurationError."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError(
                "--tls-cert and --tls-key belong together, and one is missing.", remedy="Give both files, in PEM."
            )
        if self.proxy is not None:
            _checked_address(self.proxy)
        elif self.certificate is None and not _is_loopback(self.host):
            raise ConfigurationError(
                f"--host {self.host} can be reached from other machines, and tokens would travel there unencrypted.",
                remedy="Give --tls-cert FILE and --tls-key FILE; or, where a proxy ends TLS, --behind-proxy "
                "https://NAME; or leave --host out and let clients come by ssh (`trainwright connect CLIENT --remote "
                "ssh://BOX --print`).",
            )

    def address(self, port: int) -> str:
        """Return the address that clients use, without a path."""
        if self.proxy is not None:
            return self.proxy.rstrip("/")
        host = next(iter(_names_in(self.certificate)), self.host) if self.certificate is not None else self.host
        return f"{'https' if self.certificate else 'http'}://{_bracketed(host)}:{port}"

    def security(self, port: int) -> TransportSecuritySettings:
        """Return the hosts and origins that requests may name; a page of another site gets no further."""
        names = {*LOOPBACK, _bracketed(self.host), *(_names_in(self.certificate) if self.certificate else ())}
        hosts = {f"{name}:{port}" for name in names}
        origins = {f"{'https' if self.certificate else 'http'}://{host}" for host in hosts}
        if self.proxy is not None:
            public = urlsplit(self.proxy).netloc
            hosts |= {public, f"{public}:443"} if ":" not in public else {public}
            origins |= {f"https://{public}"}
        return TransportSecuritySettings(allowed_hosts=sorted(hosts), allowed_origins=sorted(origins))


class HttpServer:
    """MCP over HTTP on one workspace."""

    def __init__(
        self,
        workspace: Path,
        reach: Reach,
        *,
        read_only: bool = False,
        build: Callable[..., StdioServer] = build_server,
    ) -> None:
        """Take the port.

        Args:
            build: makes the server, of a workspace's folder and whether it is read-only.

        Raises:
            ConfigurationError: the certificate or its key cannot be read.
            ConflictError: the port is taken.
        """
        self._socket = Listener(listening(reach.host, reach.port))
        try:
            port = self._socket.getsockname()[1]
            self.address = reach.address(port) + PATH
            application = _application(
                build(workspace, read_only=read_only), workspace, reach, port, read_only=read_only
            )
            self._server = Server(_config(application, reach))
            self._socket.connections = self._server.server_state.connections
        except BaseException:
            self._socket.close()
            raise

    def run(self) -> None:
        """Serve until the process is told to end; runs go on."""
        try:
            self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()  # whatever the end was: a port that takes connections and answers none helps nobody

    def stop(self) -> None:
        """End `run`, from another thread."""
        self._server.should_exit = True


def _application(server: StdioServer, workspace: Path, reach: Reach, port: int, *, read_only: bool) -> Starlette:
    tokens = Tokens(workspace)
    address = reach.address(port)
    security = reach.security(port)
    application = server.http_application(
        streamable_http_path=PATH,
        custom_starlette_routes=[releases(workspace, security), pushes(workspace, security, read_only=read_only)],
        max_request_body_size=MAX_BODY_BYTES,
        session_idle_timeout=IDLE_SECONDS,
        max_sessions=MAX_SESSIONS,
        transport_security=security,
        token_verifier=Verifier(tokens),
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(address),
            resource_server_url=AnyHttpUrl(address + PATH),
            required_scopes=["read"],
            validate_token_resource=False,  # the tokens are this workspace's own: there is no other resource
        ),
    )
    application.user_middleware.append(Middleware(Limits, tokens=tokens))  # innermost: the token has been read
    return application


def _config(application: Starlette, reach: Reach) -> uvicorn.Config:
    """Return the settings, with the certificate loaded. Raises ConfigurationError."""
    config = settings(
        application,
        log_config=None,
        access_log=False,  # logs/http.jsonl has the calls, without what was sent
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        timeout_graceful_shutdown=STOP_SECONDS,
        ssl_certfile=reach.certificate,
        ssl_keyfile=reach.key,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"{reach.certificate} and {reach.key} cannot be used: {error.strerror or error}.",
            remedy="Give --tls-cert a certificate and --tls-key its key, both in PEM and readable.",
        ) from error
    return config


def _names_in(certificate: Path) -> list[str]:
    """Return the names and addresses that a certificate is for. Raises ConfigurationError."""
    from cryptography import x509

    try:
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise ConfigurationError(
            f"{certificate} is no certificate in PEM that says which names it is for: {error}.",
            remedy="Give one with subject alternative names: the names by which clients reach this machine.",
        ) from error
    addresses = [_bracketed(str(address)) for address in names.get_values_for_type(x509.IPAddress)]
    # `*.example.org` says no name that a Host header could be compared with
    return [*(name for name in names.get_values_for_type(x509.DNSName) if not name.startswith("*")), *addresses]


def _checked_address(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme != "https" or not parts.netloc or parts.path.strip("/") or parts.query or "@" in parts.netloc:
        raise ConfigurationError(
            f"--behind-proxy {address} is not the address of a proxy that ends TLS.",
            remedy="Give scheme and name, as clients write them: --behind-proxy https://box.example.org",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
