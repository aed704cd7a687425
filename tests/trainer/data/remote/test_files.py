"""Remote files: fetched whole into the cache from a real store, and clear errors for those that cannot be."""

from __future__ import annotations

import http.server
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from tests.data_servers import store

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.base.errors import ConfigurationError, DataError, TrainwrightError
from trainwright.trainer.config import parse_config
from trainwright.trainer.data import cache
from trainwright.trainer.data.remote import connections
from trainwright.trainer.data.remote.connections import Access, Connection
from trainwright.trainer.data.remote.files import fetch
from trainwright.trainer.data.remote.storage import Storage
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source, open_source
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.evidence.validation import validation_of

SECRET = "store-secret-5521"
ROWS = "width,height,kind\n" + "".join(f"{row},{row * 2},k{row % 2}\n" for row in range(60))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path) -> Iterator[cache.DataCache]:
    kept = cache.DataCache(tmp_path / "cache")
    cache.use(kept)
    yield kept
    cache.use(None)
    connections.use(Access())


@pytest.fixture
def memory() -> Iterator[Any]:
    """Files of fsspec's store in this process."""
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
def test_a_remote_table_is_recorded_by_its_url_and_its_content(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/bucket/rows.csv", ROWS.encode())
    data = {"use": "csv", "args": {"path": "memory://bucket/rows.csv", "target": "kind"}}
    config = parse_config({"model": {"use": "mlp"}, "data": data})
    evidence = data_evidence(build_data(config, tmp_path), tmp_path)
    assert list(evidence.files) == ["memory://bucket/rows.csv"]
    memory.pipe("/bucket/rows.csv", ROWS.replace("3,6", "3,7").encode())
    changed = data_evidence(build_data(config, tmp_path), tmp_path)
    assert changed.files != evidence.files
    assert changed.fingerprint != evidence.fingerprint


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
def test_a_remote_table_is_validated_with_its_rows(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/bucket/rows.csv", ROWS.replace("\n3,6", "\n-3,6").encode())
    args = {"path": "memory://bucket/rows.csv", "target": "kind"}
    config = parse_config({
        "model": {"use": "mlp"},
        "data": {"use": "csv", "args": args, "expectations": {"columns": {"width": {"min": 0}}}},
    })  # fmt: skip
    found = validation_of(config, tmp_path, build_data(config, tmp_path).samples, 0)
    assert (found.problem, found.report.rows) == (None, 60)
    assert [one.rows for one in found.report.stopping] == [[3]]


@pytest.mark.requirement("TRAIN-1")
def test_patterns_and_folders_are_fetched_once(memory: Any, own_cache: cache.DataCache) -> None:
    for number in range(3):
        memory.pipe(f"/bucket/books/deep/{number}.txt", f"book {number} ".encode() * 30)
    memory.pipe("/bucket/other/notes.md", b"no")
    args = {"path": ["memory://bucket/books/**/*.txt"], "block_size": 8}
    first = open_source("text", args)
    assert [Path(path).name for path in first.path] == ["0.txt", "1.txt", "2.txt"]
    made = list(own_cache.folder.glob("*/*/manifest.json"))
    assert open_source("text", args) == first
    assert list(own_cache.folder.glob("*/*/manifest.json")) == made
    folder = Path(fetch("memory://bucket/books", Storage())[0])
    assert sorted(path.name for path in folder.rglob("*.txt")) == ["0.txt", "1.txt", "2.txt"]


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("url", ["file:///etc/passwd", "local:///etc/passwd", "simplecache::file:///etc/passwd",
                                 "zip://x::s3://b/k", "sftp://host/x", "reference://x", "S4://bucket/x"])  # fmt: skip
def test_schemes_that_reach_this_machines_files_are_no_remote_files(url: str) -> None:
    with pytest.raises(ConfigurationError, match="remote files are not read by"):
        fetch(url, Storage())


@pytest.mark.requirement("TRAIN-1")
def test_names_that_lead_out_of_the_folder_are_refused(memory: Any, own_cache: cache.DataCache) -> None:
    memory.store["/bucket/a/../../../evil.csv"] = memory.store.get("x") or _memory_file(memory)
    with pytest.raises(DataError, match="leads out of its folder"):
        fetch("memory://bucket/a", Storage())
    assert not list(own_cache.folder.glob("*/*/manifest.json"))


def _memory_file(memory: Any) -> Any:
    memory.pipe("/spare", b"x")
    return memory.store["/spare"]


@pytest.mark.requirement("TRAIN-1")
def test_what_is_fetched_is_all_that_an_absolute_path_reaches(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/bucket/rows.csv", ROWS.encode())
    (tmp_path / "beside.csv").write_text(ROWS)
    code = tmp_path / "code"
    code.mkdir()
    kept = fetch("memory://bucket/rows.csv", Storage())[0]
    assert isinstance(load_source("csv", {"path": kept, "target": "kind"}, code, SplitSection()), Loaded)
    with pytest.raises(ConfigurationError, match="outside the code root"):
        load_source("csv", {"path": str(tmp_path / "beside.csv"), "target": "kind"}, code, SplitSection())


class _Broken(http.server.BaseHTTPRequestHandler):
    """A server that promises more than it sends, or forbids."""

    def do_HEAD(self) -> None:
        self._head()

    def do_GET(self) -> None:
        self._head()
        if self.path == "/short.csv":
            self.wfile.write(b"width,hei")
        self.close_connection = True

    def _head(self) -> None:
        self.send_response({"/short.csv": 200, "/mine.csv": 403}.get(self.path, 404))
        if self.path == "/short.csv":
            self.send_header("Content-Length", "5000")
            self.send_header("ETag", "one")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def broken() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Broken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("name", "told"),
    [("short.csv", "cannot be fetched|came"), ("mine.csv", "forbids reading"), ("none.csv", "has no")],
)
def test_a_connection_that_breaks_keeps_nothing(broken: str, name: str, told: str, own_cache: cache.DataCache) -> None:
    with pytest.raises(DataError, match=told) as caught:
        fetch(f"{broken}/{name}", Storage())
    assert caught.value.remedy
    assert caught.value.__cause__ is None
    assert not [path for path in own_cache.folder.glob("*") if path.is_dir()]


@pytest.mark.requirement("TRAIN-1")
def test_a_server_that_is_not_there_is_named(own_cache: cache.DataCache) -> None:
    with pytest.raises(DataError, match="cannot be fetched: ClientConnectorError"):
        fetch("http://127.0.0.1:9/rows.csv", Storage())


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with store() as running:
        yield running


@pytest.mark.long
@pytest.mark.companions("moto")
@pytest.mark.requirement("TRAIN-1")
def test_a_store_that_speaks_s3_is_read_with_credentials_of_the_environment(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: cache.DataCache
) -> None:
    import s3fs

    for name, value in {"EP": address, "KEY": "a-key", "SECRET": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    files = s3fs.S3FileSystem(endpoint_url=address, key="a-key", secret=SECRET, skip_instance_cache=True)
    files.mkdir("churn")
    files.pipe("churn/rows/1.csv", ROWS.encode())
    named = {"endpoint_env": "EP", "key_env": "KEY", "secret_env": "SECRET"}
    args = {"path": "s3://churn/rows/1.csv", "target": "kind", "storage": named}
    loaded = load_source("csv", args, tmp_path, SplitSection())
    assert isinstance(loaded, Loaded)
    assert len(loaded.samples) == 60
    connections.use(Access("smoke", {"store": Connection(**named)}))
    again = Storage(profile="store")
    assert fetch("s3://churn/rows/*.csv", again) == fetch("s3://churn/rows/*.csv", again)
    kept = "".join(path.read_text() for path in own_cache.folder.rglob("manifest.json"))
    assert SECRET not in kept
    for url, told in {
        "s3://churn/rows/9.csv": r"has no s3://churn/rows/9\.csv.*Near: 1\.csv",
        "s3://nobody/rows.csv": "has no s3://nobody",
        "s3://churn/rows/*.parquet": "names no file",
    }.items():
        with pytest.raises(DataError, match=told):
            fetch(url, again)
    _forbid(address)
    with pytest.raises(DataError, match="forbids reading s3://churn/rows/1.csv") as forbidden:
        fetch("s3://churn/rows/1.csv", again)
    assert SECRET not in str(forbidden.value.as_dict())
    assert "data.args.storage" in forbidden.value.remedy
    monkeypatch.delenv("SECRET")
    with pytest.raises(TrainwrightError, match="SECRET.*not set"):
        fetch("s3://churn/rows/1.csv", again)


def _forbid(address: str) -> None:
    """Let the store demand credentials that it knows, from now on."""
    plain = {"Content-Type": "text/plain"}
    asked = urllib.request.Request(f"{address}/moto-api/reset-auth", data=b"0", headers=plain)  # noqa: S310
    urllib.request.urlopen(asked, timeout=10).close()  # noqa: S310
