"""Connections without a token keep nobody out: the silent ones end, the oldest first, and work goes on."""

import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from tests.function_text import body_of
from tests.server.http.conftest import serving

from trainwright.server.http import connections
from trainwright.server.http.serving import HttpServer, Reach

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-4")]
MOST, LARGE = 16, 2**25
UNFINISHED = b"POST /mcp HTTP/1.1\r\nHost: x\r\nX: "
UNFINISHED_BODY = b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
"""Refused at once for its missing token; its rest never comes."""


def kept_out() -> None:
    import resource
    import sys

    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    from trainwright.server import cli

    sys.argv = ["trainwright", "serve", "--http", "--port", "0", "--workspace", sys.argv[1]]
    cli.main()


def without_files() -> None:
    import resource
    import socket
    import sys
    import threading
    import time
    from pathlib import Path

    import httpx

    from trainwright.server.http.serving import HttpServer, Reach

    server = HttpServer(Path(sys.argv[1]), Reach())
    thread = threading.Thread(target=server.run)
    thread.start()
    assert httpx.post(server.address).status_code == 401
    client, (soft, hard) = socket.socket(), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    client.connect(("127.0.0.1", int(server.address.rpartition(":")[2].partition("/")[0])))
    time.sleep(0.5)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    sys.stdout.write(f"then {httpx.post(server.address, timeout=5).status_code}\n")
    server.stop()


@pytest.fixture
def few(tmp_path, monkeypatch):
    """A server with few connections."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", MOST)
    with serving(tmp_path / "workspace") as found:
        yield found


def connected(address, said=b""):
    """Return a connection on which so much was said."""
    parts = urlsplit(address)
    made = socket.create_connection(("127.0.0.1", parts.port), 5)
    made.sendall(said)
    return made


def has_ended(connection, seconds=0.05):
    """Return whether the server ended it within a time; what it said before is read."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            if not connection.recv(2**16):
                return True
        except TimeoutError:
            return False
        except ConnectionError:
            return True
    return False


@pytest.mark.parametrize("said", [b"", UNFINISHED, UNFINISHED_BODY], ids=["silent", "headers", "body"])
def test_the_oldest_silent_connection_makes_room(few, said):
    with ExitStack() as opened:
        crowd = [opened.enter_context(connected(few.address, said)) for _ in range(3 * MOST)]
        assert few.post(few.token("maker")).status_code != 401
        ended = [has_ended(one) for one in crowd]
    assert sum(ended) >= 2 * MOST
    assert not any(ended[-MOST // 2 :])


def test_a_stream_stays_open_in_a_crowd(few, sessions):
    token = few.token("streamer")
    with ExitStack() as opened, sessions(few, token).stream() as stream:
        for _ in range(3 * MOST):
            opened.enter_context(connected(few.address))
        assert few.post(token).status_code != 401
        assert not has_ended(stream.extensions["network_stream"].get_extra_info("socket"), 0.2)


def test_where_all_are_at_work_the_newest_is_refused(few, sessions):
    token = few.token("streamer")
    with ExitStack() as opened:
        streams = [opened.enter_context(sessions(few, token).stream()) for _ in range(MOST)]
        with pytest.raises(httpx.TransportError):
            few.post(token)
        assert not any(has_ended(one.extensions["network_stream"].get_extra_info("socket")) for one in streams)
    assert few.post(token).status_code != 401


@pytest.mark.parametrize("said", [b"", UNFINISHED, UNFINISHED_BODY], ids=["silent", "headers", "body"])
def test_a_connection_on_which_nothing_happens_ends(served, sessions, monkeypatch, said):
    monkeypatch.setattr(connections, "SILENT_SECONDS", 0.4)
    with sessions(served, served.token("streamer")).stream() as stream, connected(served.address, said) as one:
        assert has_ended(one, 3)
        assert not has_ended(stream.extensions["network_stream"].get_extra_info("socket"), 1)


@pytest.fixture
def download(served, monkeypatch):
    """A connection on which a large answer was asked for, to a server that waits 0.8 seconds for its being taken."""
    monkeypatch.setattr(connections, "SILENT_SECONDS", 0.4)
    monkeypatch.setattr(connections, "STALLED_SECONDS", 0.8)
    folder = served.workspace / "projects" / "large" / "final_model"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.bin").write_bytes(bytes(LARGE))
    asked = "GET /releases/large.tar HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n"
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**18)
        slow.connect(("127.0.0.1", urlsplit(served.address).port))
        slow.sendall(asked.format(urlsplit(served.address).netloc, served.token("reader", "read")).encode())
        yield slow


def taken(connection, pauses):
    """Take the answer, with pauses before the first parts; return how much came."""
    read = 0
    with suppress(ConnectionError):
        while read < LARGE:
            time.sleep(next(pauses, 0))
            part = connection.recv(2**20)
            if not part:
                break
            read += len(part)
    return read


def test_a_client_that_takes_none_of_its_answer_ends(download):
    assert taken(download, iter([2.5])) < LARGE


def test_a_client_that_takes_its_answer_slowly_has_it_whole(download):
    assert taken(download, iter([0.1] * 20)) >= LARGE


def test_a_connection_that_was_used_lately_outlives_older_silence(few):
    with ExitStack() as opened, httpx.Client() as client:
        client.get(few.address)
        crowd = [opened.enter_context(connected(few.address)) for _ in range(MOST - 1)]
        time.sleep(0.2)
        answer = client.get(few.address)
        crowd += [opened.enter_context(connected(few.address)) for _ in range(MOST // 2)]
        assert sum(has_ended(one) for one in crowd) == MOST // 2
        assert not has_ended(answer.extensions["network_stream"].get_extra_info("socket"))


def test_a_handshake_that_never_ends_makes_room_as_well(tls, tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", MOST)
    reach = Reach("127.0.0.1", certificate=tls[0], key=tls[1])
    with serving(tmp_path / "workspace", reach) as served, ExitStack() as opened:
        port = urlsplit(served.address).port
        crowd = [opened.enter_context(connected(served.address)) for _ in range(3 * MOST)]
        context = ssl.create_default_context(cafile=tls[0])
        assert httpx.post(f"https://127.0.0.1:{port}/mcp", verify=context).status_code == 401
        assert sum(has_ended(one) for one in crowd) >= 2 * MOST


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the length of a queue")
def test_as_many_wait_to_be_taken_as_come_at_once_whatever_the_loop_takes_in_one_turn(tmp_path):
    server = HttpServer(tmp_path / "workspace", Reach())
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert httpx.post(server.address).status_code == 401, "it serves"
        told = server._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 32)
        most = int(Path("/proc/sys/net/core/somaxconn").read_text())
        assert struct.unpack("8x6I", told)[5] == min(connections.MAX_WAITING, most)
    finally:
        server.stop()
        thread.join(30)


@pytest.mark.long
def test_a_thousand_silent_connections_leave_the_server_to_those_with_a_token(tmp_path):
    command = [sys.executable, "-P", "-c", body_of(kept_out), str(tmp_path / "workspace")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            address = next(line for line in process.stdout if "MCP at" in line).split()[2]
            with ExitStack() as opened:
                for _ in range(1000):
                    opened.enter_context(connected(address))
                assert httpx.post(address, timeout=5).status_code == 401
            assert process.poll() is None
        finally:
            process.kill()


@pytest.mark.long
def test_a_server_that_can_open_no_file_serves_again_when_it_can(tmp_path):
    command = [sys.executable, "-P", "-c", body_of(without_files), str(tmp_path / "workspace")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            said, complained = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "then 401" in said, complained
    assert complained.count("No connection can be taken") == 1
