"""Linux is tested; a Mac's CPU should do, so far as that can be shown on Linux; Windows is told where to go."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.function_text import body_of
from tests.only_linux import present

from trainwright import PLATFORMS
from trainwright.server import cli
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import parse_config

ROOT = Path(__file__).parents[2]


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_on_windows_an_import_says_that_it_is_wsl_and_nothing_of_fcntl() -> None:
    done = python(f"import sys; sys.platform = 'win32'; import {cli.__name__}")
    last = done.stderr.splitlines()[-1]
    assert (
        last == f"ImportError: {PLATFORMS} Run `wsl --install` in a terminal, then install Trainwright in that Linux."
    )
    assert "fcntl" not in done.stderr


def test_on_windows_the_command_says_the_same_in_one_line() -> None:
    script = f"import sys; sys.platform = 'win32'; sys.argv[0] = 'bin/trainwright.exe'; from {cli.__name__} import main"
    done = python(script)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith(PLATFORMS)


def test_the_import_that_says_so_is_light() -> None:
    done = python("import sys; before = set(sys.modules); import trainwright; print(*set(sys.modules) - before)")
    assert done.stdout.split() == ["trainwright"]


def test_the_documents_say_the_sentence() -> None:
    for name in ("README.md", "docs/platforms.md"):
        text = " ".join((ROOT / name).read_text().split())
        assert "supported and tested on Linux" in text, name
        assert "WSL" in text, name


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("device", ["mps", "mps:0", "MPS"])
def test_a_macs_gpu_is_refused_with_the_platforms_and_the_change_to_the_cpu(device: str) -> None:
    values: dict[str, Any] = {"model": {"use": "mlp"}, "data": {"use": "iris"}, "training": {"device": device}}
    with pytest.raises(TrainwrightError, match="mps") as refused:
        parse_config(values)
    assert PLATFORMS.rstrip(".") in refused.value.message
    assert refused.value.details["changes"] == {"training.device": "cpu"}


def import_everything() -> None:
    import importlib
    import json
    import pkgutil
    import sys
    import warnings

    def imported() -> list[str]:
        names = [trainwright.__name__]
        for part in ("trainer", "tools", "server"):
            package = importlib.import_module(f"{trainwright.__name__}.{part}")
            names += [each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
        left = []
        for name in names:
            try:
                importlib.import_module(name)
            except ImportError as error:
                left.append(f"{name}: {error}")
        return left

    warnings.simplefilter("ignore")
    import trainwright

    absent = imported()  # and all that other libraries bring, as on Linux
    for name in [name for name in sys.modules if name.partition(".")[0] == trainwright.__name__]:
        del sys.modules[name]
    sys.platform = "darwin"
    for module, wanting in json.loads(sys.argv[1]).items():
        for name in wanting:
            delattr(importlib.import_module(module), name)
    import trainwright

    print(json.dumps([absent, imported()]))


@pytest.mark.slow
def test_every_module_is_imported_without_what_linux_alone_has() -> None:
    done = python(body_of(import_everything), json.dumps(present()))
    assert done.returncode == 0, done.stderr[-2000:]
    on_linux, on_a_mac = json.loads(done.stdout.splitlines()[-1])
    assert on_a_mac == on_linux
