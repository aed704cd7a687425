"""The generated clients, run as they are against the generated service."""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.tools.integrations.conftest import Service
from tests.tools.integrations.test_generation import NPZ, write_model

from trainwright.tools.integrations import deploy

pytestmark = [pytest.mark.slow, pytest.mark.requirement("SKILL-5")]

ROOT = Path(__file__).parents[3]
BAD = 515
"""Place of a row that the service refuses, in the third part of 256 rows."""
REFUSED = f"""\
import {{ EXAMPLE, predict }} from "./client.ts";

const rows = Array(1000).fill(EXAMPLE);
rows[{BAD}] = {{ ...EXAMPLE, plan: ["family"] }};
const refused = await predict(rows, {{ url: process.env.SERVICE_URL }}).catch((error) => error);
console.log(JSON.stringify({{ status: refused.status, errors: refused.errors, words: refused.message }}));
"""


@pytest.mark.long
def test_the_python_client_predicts_and_names_what_is_wrong(
    model_of: Any, service_of: Callable[[str], Service], tmp_path: Path
) -> None:
    service = service_of("table")
    deploy(model_of("table")[0], tmp_path, ["client"])
    script = tmp_path / "client" / "client.py"
    client = runpy.run_path(str(script))
    many = client["predict"]([client["EXAMPLE"]] * 300, url=service.url)
    assert len(many) == 300, "more than the service takes at once"
    assert many[0]["label"] in {"yes", "no"}
    with pytest.raises(client["RefusedError"], match=r"rows\[0\]\.plan: Field required") as caught:
        client["predict"]([{"age (years)": 3, "joined": "2020-01-01", "active": 1, "remark": "x"}], url=service.url)
    assert caught.value.status == 422

    rows = tmp_path / "rows.json"
    rows.write_text(json.dumps([client["EXAMPLE"]]))
    environment = {**os.environ, "SERVICE_URL": service.url}
    command = [sys.executable, "-I", str(script), str(rows)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == many[0]


@pytest.fixture
def benchmark() -> Iterator[tuple[Any, Any]]:
    """Modules of benchmarks/integrations: which programs are there, and the clients as it runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks" / "integrations"))
        yield importlib.import_module("programs"), importlib.import_module("clients")


@pytest.mark.long
def test_the_page_of_the_client_runs_in_node_as_it_stands(
    benchmark: tuple[Any, Any], model_of: Any, service_of: Callable[[str], Service], tmp_path: Path
) -> None:
    programs, clients = benchmark
    if (node := programs.stripping_node()) is None:
        pytest.skip(f"client.ts cannot be run here. Missing: {programs.REMEDIES['stripping']}")
    deploy(model_of("table")[0], tmp_path, ["client"])
    folder, url = tmp_path / "client", service_of("table").url
    (folder / "try.ts").write_text(clients.snippet(folder / "README.md"))
    said = programs.run(node, "try.ts", cwd=folder, SERVICE_URL=url)
    assert "label: " in said
    (folder / "refused.ts").write_text(REFUSED)
    found = json.loads(programs.run(node, "refused.ts", cwd=folder, SERVICE_URL=url))
    assert found["status"] == 422
    assert [one["field"] for one in found["errors"]] == [f"rows[{BAD}].plan"]
    assert found["words"].startswith(f"rows[{BAD}].plan: ")


@pytest.mark.long
def test_the_typescript_has_nothing_that_is_more_than_types(model_of: Any, tmp_path: Path) -> None:
    """Where no Node of the page's version is there to run it: what type stripping refuses, by its words."""
    for kind in ("table", "number", "text", "picture", "writing"):
        deploy(model_of(kind)[0], tmp_path / kind, ["client"])
        text = (tmp_path / kind / "client" / "client.ts").read_text()
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
        assert not re.search(r"\b(enum|namespace|module)\s+\w+|import\s+\w+\s*=", code)
        [constructor] = re.findall(r"constructor\((.*?)\)", code, re.DOTALL)
        assert not re.search(r"\b(readonly|public|private|protected)\b", constructor)


@pytest.mark.long
def test_a_wrong_row_of_a_later_part_is_named_by_its_place_among_all(
    model_of: Any, service_of: Callable[[str], Service], tmp_path: Path
) -> None:
    deploy(model_of("table")[0], tmp_path, ["client"])
    client = runpy.run_path(str(tmp_path / "client" / "client.py"))
    rows = [client["EXAMPLE"]] * 1000
    rows[BAD] = {**client["EXAMPLE"], "plan": ["family"]}
    with pytest.raises(client["RefusedError"], match=rf"rows\[{BAD}\]\.plan: ") as caught:
        client["predict"](iter(rows), url=service_of("table").url)
    assert [one["field"] for one in caught.value.errors] == [f"rows[{BAD}].plan"]
    with pytest.raises(client["RefusedError"]) as caught:
        client["predict"](rows[:257], url=service_of("table").url, most_rows=257)
    assert [one["field"] for one in caught.value.errors] == ["rows"], "what is said of no row stays as it is"


@pytest.mark.long
def test_the_example_of_each_kind_is_a_row(model_of: Any, service_of: Callable[[str], Service], tmp_path: Path) -> None:
    for kind in ("table", "number", "text", "array", "forecast"):
        deploy(model_of(kind)[0], tmp_path / kind, ["client"])
        client = runpy.run_path(str(tmp_path / kind / "client" / "client.py"))
        assert client["predict"]([client["EXAMPLE"]], url=service_of(kind).url)


def test_parts_are_closed_by_rows_and_by_bytes(tmp_path: Path) -> None:
    """Against a plain server that notes what it was sent: the limits are the client's own."""
    model = write_model(tmp_path / "final_model", {}, NPZ)
    deploy(model, tmp_path / "parts", ["client"])
    client = runpy.run_path(str(tmp_path / "parts" / "client" / "client.py"))
    sent: list[tuple[int, int]] = []

    class Noting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            rows = json.loads(content)["rows"]
            sent.append((len(rows), len(content)))
            answer = json.dumps({"predictions": [{"label": row["at"]} for row in rows]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Noting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        rows = [{"picture": "A" * 100_000, "at": str(at)} for at in range(200)]
        assert [one["label"] for one in client["predict"](iter(rows), url=url)] == [row["at"] for row in rows]
        assert sum(count for count, _ in sent) == 200
        assert len(sent) == 3, "no more parts than are needed"
        assert all(7_800_000 < size <= 8_000_000 for _, size in sent[:-1])
        sent.clear()
        client["predict"]([{"at": "x"}] * 7, url=url, most_rows=3)
        assert [count for count, _ in sent] == [3, 3, 1]
        sent.clear()
        client["predict"]([{"at": "x" * 90}] * 3, url=url, most_bytes=80)
        assert [count for count, _ in sent] == [1, 1, 1], "a row that is too large is sent alone"
        assert client["predict"]([], url=url) == []
        server.shutdown()
