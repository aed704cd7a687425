"""The generated Python client, run as it is against the generated service."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.tools.integrations.conftest import Service
from tests.tools.integrations.test_generation import NPZ, write_model

from trainwright.tools.integrations import deploy

pytestmark = [pytest.mark.slow, pytest.mark.requirement("SKILL-5")]


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
