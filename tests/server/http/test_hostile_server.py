"""`trainwright fetch` from a server that means ill: nothing is written beside the folder, and nothing planted in it."""

from __future__ import annotations

import gzip
import io
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from trainwright.server.commands import fetch as fetching
from trainwright.server.commands.fetch import fetch
from trainwright.trainer.base.errors import ConfigurationError

pytestmark = pytest.mark.requirement("PRED-1", "GATE-5")


def archive(*members: tuple[str, bytes, str], mode: str = "w") -> bytes:
    """Return a tar of (name, type, link or text)."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as tar:  # type: ignore[call-overload]
        for name, kind, given in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, given if kind != tarfile.REGTYPE else ""
            data = given.encode() if kind == tarfile.REGTYPE else b""
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return held.getvalue()


def through_long_links() -> bytes:
    """Return a tar whose links are too long to be resolved, so that one of them leads out (CVE-2025-4517)."""
    step, members, path = "d" * 247, [], "final_model"
    for letter in "abcdefghijklmnop":
        members += [(f"{path}/{step}", tarfile.DIRTYPE, ""), (f"{path}/{letter}", tarfile.SYMTYPE, step)]
        path = f"{path}/{step}"
    linked = "final_model/" + "/".join("abcdefghijklmnop")
    members += [(f"{linked}/{'l' * 254}", tarfile.SYMTYPE, "../" * 16)]
    members += [("final_model/out", tarfile.SYMTYPE, f"{linked[12:]}/{'l' * 254}/../../outside")]
    members += [("final_model/out/pwned", tarfile.REGTYPE, "x")]
    return archive(*members)


SENT = {
    "a link to a neighbour": archive(("final_model/model.onnx", tarfile.SYMTYPE, "../victim.txt")),
    "a hard link": archive(("final_model/x", tarfile.LNKTYPE, "../victim.txt")),
    "the folder is a link": archive(("final_model", tarfile.SYMTYPE, ".")),
    "links too long to resolve": through_long_links(),
    "a parent": archive(("final_model/../victim.txt", tarfile.REGTYPE, "x")),
    "an absolute path": archive(("/final_model/x", tarfile.REGTYPE, "x")),
    "another folder": archive(("elsewhere/x", tarfile.REGTYPE, "x")),
    "a device": archive(("final_model/null", tarfile.CHRTYPE, "")),
    "compressed within": archive(("final_model/x", tarfile.REGTYPE, "x" * 9999), mode="w:xz"),
    "no archive": b"hello",
    "nothing": archive(),
}


@contextmanager
def serving(body: bytes, **headers: str) -> Iterator[str]:
    class Hostile(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


@pytest.mark.parametrize("sent", SENT)
def test_what_is_no_plain_release_is_refused_and_leaves_nothing(
    sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_TOKEN", "x")
    (tmp_path / "victim.txt").write_text("mine")
    (tmp_path / "outside").mkdir()
    with serving(SENT[sent]) as url, pytest.raises(ConfigurationError, match="no plain file|no release's archive"):
        fetch("digits", url, tmp_path / "model")
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["outside", "victim.txt"]
    assert (tmp_path / "victim.txt").read_text() == "mine"


def test_an_answer_that_unfolds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINWRIGHT_TOKEN", "x")
    with serving(gzip.compress(b"\0" * 10**6), Content_Encoding="gzip") as url:
        with pytest.raises(ConfigurationError, match="answers compressed"):
            fetch("digits", url, tmp_path / "model")
        monkeypatch.setattr(fetching, "SHARE_OF_FREE", 10**12)
    with serving(b"\0" * 10**6) as url, pytest.raises(ConfigurationError, match="half of what is free here"):
        fetch("digits", url, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
