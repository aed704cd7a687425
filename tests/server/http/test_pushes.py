"""A folder comes to the server by its holder's token, by content; nothing is written outside its own place."""

from __future__ import annotations

import hashlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import pytest
from tests.server.http.conftest import Served, serving

from trainwright.server import cli
from trainwright.server.http import pushes
from trainwright.server.http.placing import folder, put

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MCP-3", "GATE-5")]
FILES = {"net.py": b"x = 1\n", "data/rows.csv": b"a,b\n1,2\n" * 500, "data/same.csv": b"a,b\n1,2\n" * 500}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """A server whose first code root is a folder of this test."""
    with serving(tmp_path / "served" / "workspace") as served:
        yield served


def placed(served: Served, name: str) -> dict[str, bytes]:
    """The files of a pushed folder, hidden ones left out."""
    root = served.workspace.parent / "pushed" / name
    found = (one for one in root.rglob("*") if one.is_file() and not one.name.startswith("."))
    return {str(one.relative_to(root)): one.read_bytes() for one in found}


def lay(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def pushed(served: Served, token: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", cli.__name__, "push", str(folder), "--url", served.address]
    environment = {**os.environ, "TRAINWRIGHT_TOKEN": token}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_folder_comes_whole_and_then_what_has_changed_alone(
    own: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, sizes = lay(tmp_path / "Mine", FILES), []
    received = pushes._received

    def counted(file: Any, place: Any) -> dict[str, Any]:
        sizes.append(file.seek(0, 2))
        file.seek(0)
        return received(file, place)

    monkeypatch.setattr(pushes, "_received", counted)
    done = pushed(own, own.token("maker"), folder)
    assert done.returncode == 0, done.stderr
    assert '3 files, 3 changed, 0 removed. In calls there: code_root="pushed/mine"' in done.stdout
    assert placed(own, "mine") == FILES
    assert sum(sizes) < 2 * 10240 + len(FILES["data/rows.csv"]) * 2, "the same content is sent once"
    (folder / "net.py").unlink()
    (folder / "data" / "rows.csv").rename(folder / "other.csv")
    lay(own.workspace.parent / "pushed" / "mine", {"made_by_a_run.txt": b"kept"})
    sizes.clear()
    done = pushed(own, own.token("maker"), folder)
    assert "2 files, 1 changed, 2 removed" in done.stdout
    assert placed(own, "mine").keys() == {"other.csv", "data/same.csv", "made_by_a_run.txt"}
    assert len(sizes) == 1, "nothing but the manifest was sent"


def test_secrets_hidden_files_and_links_stay_on_the_clients_machine(own: Served, tmp_path: Path) -> None:
    key = "sk-" + "ant-api03-" + "a1B2" * 12
    lay(tmp_path / "outside", {"passwords.txt": b"x"})
    files = {
        "net.py": b"x = 1",
        "client.py": f"KEY = '{key}'".encode(),
        "server.pem": b"k",
        ".env": b"A=1",
        ".git/config": b"",
    }
    folder = lay(tmp_path / "mine", files)
    (folder / "link.txt").symlink_to(tmp_path / "outside" / "passwords.txt")
    (folder / "linked").symlink_to(tmp_path / "outside")
    done = pushed(own, own.token("maker"), folder)
    assert done.returncode == 0, done.stderr
    assert placed(own, "mine") == {"net.py": b"x = 1"}
    for said in ("client.py (holds a secret: Anthropic key)", "server.pem (named as a secret is)", "link.txt (a link)"):
        assert f"left here: {said}" in done.stderr
    assert key not in done.stderr


def test_only_who_operates_in_all_projects_pushes(own: Served, tmp_path: Path) -> None:
    folder = lay(tmp_path / "mine", FILES)
    for token, said in (
        (own.token("reader", "read"), "has the scope read, and push needs operate"),
        (own.token("bound", "operate", "one"), "is bound to projects"),
        ("wrong", "no token that lets anybody in"),
    ):
        done = pushed(own, token, folder)
        assert done.returncode == 1
        assert said in done.stderr
    assert not (own.workspace.parent / "pushed").exists()
    with serving(tmp_path / "other" / "workspace", read_only=True) as closed:
        assert "This server is read-only" in pushed(closed, closed.token("maker"), folder).stderr


def archive(manifest: Any, *members: tuple[str, bytes, bytes]) -> bytes:
    """A tar of a manifest and of (name, type, content)."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for name, kind, data in (("manifest.json", tarfile.REGTYPE, json.dumps(manifest).encode()), *members):
            member = tarfile.TarInfo(name)
            member.type, member.size = kind, len(data) if kind == tarfile.REGTYPE else 0
            member.linkname = data.decode() if kind != tarfile.REGTYPE else ""
            tar.addfile(member, io.BytesIO(data))
    return held.getvalue()


def listed(data: bytes = b"x", *paths: str, **changes: Any) -> dict[str, Any]:
    return {
        "files": {path: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} | changes for path in paths}
    }


BIG = 2**62
HOSTILE = {
    "up": archive(listed(b"x", "../out.py"), ("../out.py", tarfile.REGTYPE, b"x")),
    "absolute": archive(listed(b"x", "/tmp/out.py"), ("/tmp/out.py", tarfile.REGTYPE, b"x")),
    "hidden": archive(listed(b"x", ".git/hooks/run"), (".git/hooks/run", tarfile.REGTYPE, b"x")),
    "twice": archive(listed(b"x", "a//b.py"), ("a//b.py", tarfile.REGTYPE, b"x")),
    "long in bytes": archive(listed(b"x", "ü" * 200), ("ü" * 200, tarfile.REGTYPE, b"x")),
    "control": archive(listed(b"x", "a\nb.py"), ("a\nb.py", tarfile.REGTYPE, b"x")),
    "backslash": archive(listed(b"x", "..\\out.py"), ("..\\out.py", tarfile.REGTYPE, b"x")),
    "link": archive(listed(b"x", "a.py"), ("a.py", tarfile.SYMTYPE, b"/etc/passwd")),
    "hard link": archive(listed(b"x", "a.py"), ("a.py", tarfile.LNKTYPE, b"manifest.json")),
    "device": archive(listed(b"x", "a.py"), ("a.py", tarfile.CHRTYPE, b"")),
    "not named": archive(listed(b"x", "a.py"), ("b.py", tarfile.REGTYPE, b"x")),
    "sent twice": archive(listed(b"x", "a.py"), ("a.py", tarfile.REGTYPE, b"x"), ("a.py", tarfile.REGTYPE, b"x")),
    "another size": archive(listed(b"x", "a.py"), ("a.py", tarfile.REGTYPE, b"xx")),
    "another content": archive(listed(b"x", "a.py"), ("a.py", tarfile.REGTYPE, b"y")),
    "too large": archive(listed(b"x", "a.py", size=BIG)),
    "no digest": archive(listed(b"x", "a.py", sha256="../../x")),
    "file and folder": archive(listed(b"x", "a", "a/b"), ("a", tarfile.REGTYPE, b"x")),
    "no archive": b"x" * 4096,
    "no manifest": archive({"paths": []}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_means_ill_is_refused_in_words_and_leaves_nothing(own: Served, case: str) -> None:
    answer = sent(own, "mine", HOSTILE[case])
    assert answer.status_code in {400, 409, 413}, answer.text
    assert answer.json()["message"]
    assert not placed(own, "mine")
    outside = {one.name for one in own.workspace.parent.iterdir()} | {one.name for one in own.workspace.iterdir()}
    assert not {"out.py", "..\\out.py"} & outside
    assert {one.name for one in (own.workspace / "pushes").iterdir()} <= {"mine.lock"}


def sent(served: Served, name: str, body: bytes, token: str = "") -> httpx.Response:
    headers = {"Authorization": f"Bearer {token or served.token('maker')}"}
    return httpx.post(f"{served.address.removesuffix('/mcp')}/roots/{name}", content=body, headers=headers)


def test_links_that_a_run_has_put_there_lead_nowhere(own: Served, tmp_path: Path) -> None:
    """A run is the server's user: what it leaves in the folder must not let a token write elsewhere."""
    outside = lay(tmp_path / "outside", {"kept.py": b"kept"})
    assert sent(own, "mine", archive(listed(b"x", "a.py"), ("a.py", tarfile.REGTYPE, b"x"))).status_code == 200
    root = own.workspace.parent / "pushed" / "mine"
    (root / "sub").symlink_to(outside)
    assert sent(own, "mine", archive(listed(b"x", "sub/kept.py"))).status_code == 409
    (root / ".pushed.json").write_text(
        json.dumps([str(outside / "kept.py"), "../../../outside/kept.py", "sub/kept.py"])
    )
    assert sent(own, "mine", archive(listed(b"x", "a.py"))).json()["removed"] == 0
    assert (outside / "kept.py").read_bytes() == b"kept"
    (own.workspace.parent / "pushed" / "linked").symlink_to(outside)
    asked = sent(own, "linked", archive(listed(b"what is there", "kept.py")))
    assert "is a link" in asked.json()["message"], "whether a file of that content lies behind it is not told"
    assert sent(own, "linked", archive(listed(b"x", "kept.py"), ("kept.py", tarfile.REGTYPE, b"x"))).status_code == 409
    assert (outside / "kept.py").read_bytes() == b"kept"


STANDING = {
    "a folder of a run's": ["plain.py"],
    "a file of a run's": ["made.txt/new.py"],
    "a file in a folder that stays": ["sub"],
    "through a link": ["link/new.py"],
}


@pytest.mark.parametrize("case", STANDING)
def test_what_cannot_take_its_place_is_refused_before_anything_is_done(own: Served, case: str) -> None:
    before = {"old.py": b"x", "sub/kept.py": b"x"}
    assert sent(own, "mine", archive(listed(b"x", *before), ("old.py", tarfile.REGTYPE, b"x"))).status_code == 200
    root = own.workspace.parent / "pushed" / "mine"
    lay(root, made := {"plain.py/of_a_run.txt": b"", "made.txt": b"", "sub/log.txt": b""})
    (root / "link").symlink_to(root / "sub")
    answer = sent(own, "mine", archive(listed(b"x", "new.py", *STANDING[case])))
    assert answer.status_code == 409, answer.text
    assert answer.json()["message"]
    assert placed(own, "mine") == before | made
    (own.workspace / "pushes" / "mine.json").write_text('["/etc/hostname", 1]')
    assert "is damaged" in sent(own, "mine", archive(listed(b"x", "new.py"))).json()["message"]
    assert placed(own, "mine") == before | made


def test_a_file_becomes_a_folder_and_a_folder_a_file(own: Served) -> None:
    assert sent(own, "mine", archive(listed(b"x", "a", "b/c/d"), ("a", tarfile.REGTYPE, b"x"))).status_code == 200
    assert sent(own, "mine", archive(listed(b"x", "a/a", "b"))).json()["removed"] == 2
    assert placed(own, "mine") == {"a/a": b"x", "b": b"x"}


def test_a_file_comes_from_another_file_system_too(tmp_path: Path) -> None:
    with TemporaryDirectory(dir="/var/tmp") as there:
        source = lay(tmp_path, {"one": b"new"}) / "one"
        (Path(there) / "two").symlink_to(lay(tmp_path, {"outside": b"kept"}) / "outside")
        with folder(Path(there), ()) as root:
            put(source, root, "two")
        assert (Path(there) / "two").read_bytes() == b"new"
        assert [one.name for one in Path(there).iterdir()] == ["two"]
    assert (tmp_path / "outside").read_bytes() == b"kept"


def test_a_folder_larger_than_the_limit_is_refused_while_it_comes(own: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushes, "MAX_BYTES", 10_000)
    monkeypatch.setattr(pushes, "MAX_FILES", 2)
    assert sent(own, "mine", bytes(30_000)).status_code == 413
    many = archive(listed(b"x", "a.py", "b.py", "c.py"))
    assert (sent(own, "mine", many).status_code, "at most 2 files" in sent(own, "mine", many).text) == (413, True)


def test_copies_of_a_file_that_is_there_take_no_more_than_their_share_of_the_disk(
    own: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytes(2**20)
    assert sent(own, "mine", archive(listed(data, "a.bin"), ("a.bin", tarfile.REGTYPE, data))).status_code == 200
    monkeypatch.setattr(pushes, "SHARE_OF_FREE", shutil.disk_usage(own.workspace).free // (4 * len(data)))
    answer = sent(own, "mine", archive(listed(data, *(f"{count}.bin" for count in range(8)))))
    assert (answer.status_code, "half the free disk" in answer.json()["message"]) == (413, True)
    assert placed(own, "mine").keys() == {"a.bin"}


def test_a_disk_that_takes_no_more_is_named_and_leaves_nothing(own: Served) -> None:
    """A limit of the process on a file's size stands for the disk's end: both are errors of the same call."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    data = bytes(8 * 2**20)
    whole = archive(listed(data, "a.bin"), ("a.bin", tarfile.REGTYPE, data))
    token = own.token("maker")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 * 2**20, before[1]))
    try:
        answer = sent(own, "mine", whole, token)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (answer.status_code, "no room" in answer.json()["message"]) == (507, True)
    assert not placed(own, "mine")


def test_a_push_that_breaks_off_is_made_up_by_the_next(own: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was placed is known as pushed, and what was to go still is: neither stays behind."""
    assert sent(own, "mine", archive(listed(b"x", "a", "b"), ("a", tarfile.REGTYPE, b"x"))).status_code == 200
    with monkeypatch.context() as broken:
        broken.setattr(pushes, "put", lambda source, root, path: put(source, root, path) if path == "c" else 1 / 0)
        broken.setattr(pushes, "remove", lambda root, path: 0)
        with suppress(httpx.HTTPError):
            assert sent(own, "mine", archive(listed(b"x", "c", "d"))).status_code == 500
    assert placed(own, "mine").keys() == {"a", "b", "c"}
    assert sent(own, "mine", archive(listed(b"x", "d"))).json()["removed"] == 3
    assert placed(own, "mine").keys() == {"d"}


async def test_a_path_of_the_clients_machine_is_named_as_one_and_what_was_pushed_is_found(own, tmp_path):
    folder = lay(tmp_path / "mine", {"rows.csv": b"a,b,label\n" + b"1,2,yes\n2,1,no\n" * 40})
    arguments = {"intent": "Tell yes from no, accuracy 0.9", "data": "rows.csv"}
    async with own.agent(own.token("maker")) as agent:
        for root in (str(folder / "elsewhere"), "."):
            said = await agent.refusal("plan_training", **arguments, code_root=root)
            assert "trainwright push FOLDER --url ADDRESS" in said
        assert pushed(own, own.token("maker"), folder).returncode == 0
        planned = await agent.get("plan_training", **arguments, code_root="pushed/mine")
        assert planned["state"] != "questions" or "rows.csv" not in str(planned["questions"])
