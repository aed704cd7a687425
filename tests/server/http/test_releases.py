"""A release is brought to the client's machine by its token, and by nobody else's."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import httpx
import pytest
from tests.server.http.conftest import Served
from tests.worlds.warm import trainwright_command

from trainwright.server.http import releases

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-2", "PRED-1")]
FILES = {"README.md": b"# one", "model.onnx": bytes(range(256)) * 999, "code/net.py": b"x = 1"}


@pytest.fixture
def released(served: Served) -> Served:
    folder = served.workspace / "projects" / "one" / "final_model"
    if not folder.exists():
        (folder / "code").mkdir(parents=True)
        for name, data in FILES.items():
            (folder / name).write_bytes(data)
        (folder / "link").symlink_to(served.workspace / "tokens.json")
    return served


def fetched(served: Served, token: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [*trainwright_command(os.environ), "fetch", "one", "--url", served.address]
    environment = {**os.environ, "TRAINWRIGHT_TOKEN": token}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_folder_comes_whole_and_without_what_a_link_leads_to(released: Served, tmp_path: Path) -> None:
    done = fetched(released, released.token("reader", "read"), tmp_path)
    assert done.returncode == 0, done.stderr
    found = {str(one.relative_to(tmp_path / "final_model")): one for one in tmp_path.rglob("*") if one.is_file()}
    assert {name: one.read_bytes() for name, one in found.items()} == FILES
    again = fetched(released, released.token("reader", "read"), tmp_path)
    assert again.returncode == 1
    assert "final_model is there already" in again.stderr
    lines = (released.workspace / "logs" / "http.jsonl").read_text().splitlines()
    line = next(one for one in map(json.loads, lines) if one["method"] == "releases")
    assert (line["token"], line["project"], line["outcome"]) == ("reader", "one", "answered")


@pytest.mark.parametrize(
    ("project", "headers", "status", "said"),
    [
        ("one", {"Authorization": "Bearer wrong"}, 401, "no token that lets anybody in"),
        ("one", {"Host": "evil.example.org"}, 421, "Host"),
        ("one", {"Origin": "https://evil.example.org"}, 403, "Origin"),
        ("two", {}, 404, "has no final model"),
        ("..%2F..", {}, 404, ""),
    ],
)
def test_others_get_a_refusal(released: Served, project: str, headers: dict[str, str], status: int, said: str) -> None:
    given = {"Authorization": f"Bearer {released.token('reader', 'read')}", **headers}
    answer = httpx.get(f"{released.address.removesuffix('/mcp')}/releases/{project}.tar", headers=given)
    assert answer.status_code == status
    assert said in answer.text


def test_a_token_of_another_project_brings_nothing(released: Served, tmp_path: Path) -> None:
    done = fetched(released, released.token("bound", "read", "two"), tmp_path)
    assert done.returncode == 1
    assert "is bound to two" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(autouse=True)
def own_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's temporary files are in a folder where nobody else has any."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


def left() -> list[str]:
    """Return the temporary files that are still there: with a name, or open without one."""
    folder, opened = Path(tempfile.gettempdir()), []
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 - numbers
        with suppress(OSError):  # closed meanwhile
            opened.append(str(Path("/proc/self/fd", number).readlink()))
    return [file for file in opened if file.startswith(f"{folder}/")] + [str(file) for file in folder.iterdir()]


def become(wanted: Callable[[], bool]) -> bool:
    """Return whether something comes true within seconds."""
    end = time.monotonic() + 5
    while not (found := wanted()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


@pytest.fixture
def asked(released: Served) -> Iterator[Callable[[str], socket.socket]]:
    """How a large archive is asked for by a client that then takes nothing."""
    large = released.workspace / "projects" / "large" / "final_model"
    large.mkdir(parents=True, exist_ok=True)
    (large / "model.bin").write_bytes(bytes(2**24))
    parts = urlsplit(released.address)
    with ExitStack() as opened:

        def ask(token: str) -> socket.socket:
            made = opened.enter_context(socket.socket())
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.connect(("127.0.0.1", parts.port))
            headers = f"Host: {parts.netloc}\r\nAuthorization: Bearer {token}"
            made.sendall(f"GET /releases/large.tar HTTP/1.1\r\n{headers}\r\n\r\n".encode())
            return made

        yield ask


@pytest.mark.parametrize("asked_for", ["bytes=x", "garbage", "bytes=999999999999-", "bytes=5-2", "bytes=0-1"])
def test_a_part_is_answered_with_the_whole_and_leaves_no_archive(released: Served, asked_for: str) -> None:
    given = {"Authorization": f"Bearer {released.token('reader', 'read')}", "Range": asked_for}
    address = f"{released.address.removesuffix('/mcp')}/releases/one.tar"
    answer = httpx.get(address, headers=given)
    assert answer.status_code == 200
    assert len(answer.content) == int(answer.headers["content-length"]) > len(FILES["model.onnx"])
    head = httpx.head(address, headers=given)
    assert (head.headers["content-length"], head.content) == (answer.headers["content-length"], b"")
    assert become(lambda: not left())


def test_a_token_revoked_during_the_download_leaves_no_archive(
    released: Served, asked: Callable[[str], socket.socket]
) -> None:
    slow = asked(released.token("leaver", "read"))
    assert slow.recv(12) == b"HTTP/1.1 200"
    assert left()
    released.tokens.revoke("leaver")
    assert become(lambda: not left())


def test_a_token_has_so_many_downloads_at_once_and_each_that_ends_makes_room(
    released: Served, asked: Callable[[str], socket.socket]
) -> None:
    token = released.token("hoarder", "read")
    slow = [asked(token) for _ in range(releases.MAX_DOWNLOADS)]
    assert {one.recv(12) for one in slow} == {b"HTTP/1.1 200"}
    assert asked(token).recv(12) == b"HTTP/1.1 429"
    slow[0].close()
    assert become(lambda: asked(token).recv(12) == b"HTTP/1.1 200")
    for one in slow[1:]:
        one.close()


def test_few_archives_are_made_at_once_and_the_others_wait(released: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, lock, make, seen = [0], threading.Lock(), releases._archive, []

    def slowly(folder: Path) -> IO[bytes]:
        with lock:
            counted[0] += 1
            seen.append(counted[0])
        time.sleep(0.3)
        with lock:
            counted[0] -= 1
        return make(folder)

    monkeypatch.setattr(releases, "_archive", slowly)
    address = f"{released.address.removesuffix('/mcp')}/releases/one.tar"
    headers = {"Authorization": f"Bearer {released.token('reader', 'read')}"}
    with ThreadPoolExecutor(releases.MAX_DOWNLOADS) as pool:
        asked = [pool.submit(httpx.get, address, headers=headers, timeout=30) for _ in range(releases.MAX_DOWNLOADS)]
    assert [one.result().status_code for one in asked] == [200] * releases.MAX_DOWNLOADS
    assert max(seen) == releases.MAX_MADE_AT_ONCE < releases.MAX_DOWNLOADS


def test_an_archive_that_cannot_be_made_leaves_nothing(released: Served, asked: Callable[[str], socket.socket]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))  # as on a disk that is full
    try:
        assert asked(released.token("reader", "read")).recv(12) == b"HTTP/1.1 500"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert become(lambda: not left())


async def test_a_page_of_the_servers_machine_comes_with_the_way_to_it(served):
    async with served.agent(served.token("maker")) as agent:
        answer = await agent.get("open_dashboard")
    port = urlsplit(answer["address"]).port
    assert answer["forward"] == f"ssh -L {port}:127.0.0.1:{port} BOX"
