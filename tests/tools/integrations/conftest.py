"""Released models and their services, each made once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.data_servers import free_port
from tests.trainer.conftest import make_run, work
from tests.worlds.released import released

from trainwright.tools.integrations import deploy

__all__ = ["make_run", "work"]

SECONDS = 60.0
BLOCKED = """\
import sys


class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "trainwright", "transformers"}:
            raise ImportError(f"a service needs no {name}")


sys.meta_path.insert(0, Refused())
"""
"""Runs before the service does: what it must not need cannot be imported."""


class Service:
    """A service in a process of its own.

    Args:
        folder: of the generated service.
        settings: environment variables without `SERVICE_`.
    """

    def __init__(self, folder: Path, **settings: str) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        blocking = folder / "blocking"
        blocking.mkdir(exist_ok=True)
        (blocking / "sitecustomize.py").write_text(BLOCKED)
        names = {
            f"SERVICE_{name.upper()}": value for name, value in {"port": str(port), "rate": "", **settings}.items()
        }
        kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONSAFEPATH"}}
        self.log = folder / "log.txt"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "app.py"], cwd=folder, stdout=log, stderr=log,
                env={**kept, **names, "PYTHONPATH": str(blocking), "PYTHONDONTWRITEBYTECODE": "1"},
            )  # fmt: skip
        self.client = httpx.Client(base_url=self.url, timeout=SECONDS)

    def wait(self) -> None:
        """Wait until it is ready."""
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            assert self.process.poll() is None, self.log.read_text()
            try:
                if self.client.get("/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(f"not ready: {self.log.read_text()}")

    def predict(self, **body: Any) -> httpx.Response:
        """Send a request to /predict."""
        return self.client.post("/predict", json=body)

    def stop(self) -> int:
        """Tell it to stop, and return how it ended."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


@contextmanager
def serving(folder: Path, **settings: str) -> Iterator[Service]:
    """Run a generated service."""
    service = Service(folder, **settings)
    try:
        service.wait()
        yield service
    finally:
        service.client.close()
        service.process.kill()
        service.process.wait()


@pytest.fixture(scope="session")
def model_of(tmp_path_factory: pytest.TempPathFactory, make_run: Any, work: Any) -> Callable[[str], Any]:
    """`model_of(kind)` returns a released model's folder and its configuration: read it only."""
    made: dict[str, Any] = {}

    def model(kind: str) -> Any:
        if kind not in made:
            made[kind] = released(tmp_path_factory.mktemp(kind) / "released", kind, make_run, work)
        return made[kind]

    return model


@pytest.fixture
def copy_of(model_of: Callable[[str], Any], tmp_path: Path) -> Callable[[str], Path]:
    """`copy_of(kind)` returns a copy of a released model's folder, to be spoiled."""

    def copied(kind: str) -> Path:
        return Path(shutil.copytree(model_of(kind)[0], tmp_path / "copy" / "final_model"))

    return copied


@pytest.fixture(scope="session")
def service_of(model_of: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`service_of(kind)` returns a running service of a released model."""
    from contextlib import ExitStack

    running: dict[str, Service] = {}
    with ExitStack() as stack:

        def service(kind: str) -> Service:
            if kind not in running:
                deploy(model_of(kind)[0], into := tmp_path_factory.mktemp(f"{kind}-parts"))
                running[kind] = stack.enter_context(serving(into / "service"))
            return running[kind]

        yield service
