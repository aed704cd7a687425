"""Where the server may be reached: on this machine as it is, beyond it only encrypted."""

import ssl

import httpx
import pytest
from tests.server.http.conftest import HEADERS, LIST, serving

from trainwright.server.http.serving import HttpServer, Reach
from trainwright.trainer.base.errors import ConfigurationError, ConflictError

pytestmark = pytest.mark.requirement("MCP-4")
EVERYWHERE = "0.0.0.0"  # noqa: S104 - to be refused, or encrypted


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "192.0.2.1", "box.example.org"])
def test_a_host_beyond_this_machine_is_refused_without_encryption(host):
    with pytest.raises(ConfigurationError) as refused:
        Reach(host)
    assert f"--host {host}" in refused.value.message
    for way in ("--tls-cert", "--behind-proxy", "ssh://"):
        assert way in refused.value.remedy


@pytest.mark.parametrize("address", ["http://box", "box", "https://", "https://box/mcp", "https://u@box"])
def test_what_is_no_address_of_a_proxy_is_refused(address):
    with pytest.raises(ConfigurationError, match="--behind-proxy"):
        Reach(EVERYWHERE, proxy=address)


def test_a_certificate_without_its_key_is_refused(tls):
    with pytest.raises(ConfigurationError, match="belong together"):
        Reach(EVERYWHERE, certificate=tls[0])


def test_a_file_that_is_no_certificate_is_refused_in_words(tls, tmp_path):
    for certificate, key in ((tls[1], tls[1]), (tls[0], tls[0]), (tmp_path / "none.pem", tls[1])):
        with pytest.raises(ConfigurationError, match="pem"):
            HttpServer(tmp_path, Reach("127.0.0.1", certificate=certificate, key=key))


def test_behind_a_proxy_its_name_is_let_in_as_well():
    allowed = Reach(EVERYWHERE, proxy="https://box.example.org").security(8765)
    assert {"box.example.org", "box.example.org:443", "127.0.0.1:8765"} <= set(allowed.allowed_hosts)
    assert "https://box.example.org" in allowed.allowed_origins
    assert allowed.enable_dns_rebinding_protection


@pytest.mark.slow
def test_with_a_certificate_its_names_are_let_in_and_no_others(tls, tmp_path):
    with serving(tmp_path, Reach(EVERYWHERE, certificate=tls[0], key=tls[1])) as served:
        assert served.address.startswith("https://box.example.org:")
        port = served.address.partition("org:")[2].partition("/")[0]
        context = ssl.create_default_context(cafile=tls[0])
        headers = {**HEADERS, "Authorization": f"Bearer {served.token('tls')}"}
        for host, refused in (("box.example.org", False), ("127.0.0.1", False), ("a.x.org", True), ("evil", True)):
            named = {**headers, "Host": f"{host}:{port}"}
            answer = httpx.post(f"https://127.0.0.1:{port}/mcp", json=LIST, headers=named, verify=context)
            assert (answer.status_code == 421) == refused, host


@pytest.mark.slow
def test_a_port_that_is_taken_is_refused_in_words(tmp_path):
    with serving(tmp_path) as served, pytest.raises(ConflictError, match="cannot be taken"):
        HttpServer(tmp_path, Reach(port=int(served.address.rpartition(":")[2].partition("/")[0])))
