"""Nothing that a process does before it forks workers initialises CUDA or counts devices: no fork could use them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests import cuda_watch
from tests.cuda_watch import calls
from tests.function_text import body_of
from tests.tools.launchers.warm_starts import SHORT, begin, ended, kind_of_run, launcher, warm_up
from tests.trainer.start_a_run import make_run
from tests.variants import variants

from trainwright.trainer.run import RunDirectory, RunState

pytestmark = [
    pytest.mark.slow,
    pytest.mark.requirement("TUNE-3"),
    pytest.mark.skipif(sys.platform != "linux", reason="warm processes are Linux's alone"),
]
ROOT = Path(__file__).parents[3]
WATCHED = f"""
import runpy, sys
from pathlib import Path
runpy.run_path({cuda_watch.__file__!r})["watch"](Path(sys.argv[1]))
""".strip()
BERT = {"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 32}  # fmt: skip
TEXTS = {
    "model": {"use": "transformers", "args": {"config": BERT}},
    "data": {"use": "csv", "args": {
        "path": "texts.csv", "text": "text", "target": "label", "tokenizer": "bpe:280", "max_length": 24}},
    "training": {"epochs": 1},
}  # fmt: skip


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the calls of each interpreter that a launcher starts are written."""
    log, interpreter = tmp_path / "calls", tmp_path / "python"
    lines = [f"#!{sys.executable} -P", "import runpy, sys", f"sys.argv[:] = ['', {str(log)!r}, *sys.argv[1:]]"]
    lines += [f"runpy.run_path({cuda_watch.__file__!r}, run_name='__main__')"]
    interpreter.write_text("\n".join(lines) + "\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    return log


TRAINED = {"table": SHORT, "tensorboard": {**SHORT, "logging": {"tensorboard": True}}, "texts": TEXTS}


@pytest.mark.long
@pytest.mark.parametrize("name", variants(TRAINED, quick=["table"]))
def test_a_warm_process_leaves_cuda_to_its_forks(name: str, tmp_path: Path, log: Path) -> None:
    rows = [f"{word} {number},{number % 2}" for number, word in enumerate(["good", "bad"] * 40)]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    own = launcher(tmp_path / "slots")
    run: RunDirectory = make_run(tmp_path / "run", TRAINED[name])
    try:
        warm_up(own, run)
        launch = begin(own, run, warm=True)
        ended(run)
        assert run.last_status().state is RunState.COMPLETED, run.log.read_text()
        assert launch.parent is not None
        assert launch.process is not None
        assert calls(log, launch.parent.pid) == []
        assert calls(log, launch.process.pid), "its fork asks for the device: so the parent would have been heard"
        assert own.warm.is_ready(kind_of_run(run)), "it is still there, and waits for the next"
    finally:
        own.warm.close()


def import_all() -> None:
    import runpy
    import sys
    from pathlib import Path

    runpy.run_path(sys.argv[1])["watch"](Path(sys.argv[2]))
    sys.path[:0] = sys.argv[3:5]
    from trainwright.trainer import worker
    from trainwright.trainer.catalog import first_modules
    from trainwright.trainer.data.sources import SOURCES
    from trainwright.trainer.jobs.first_imports import import_first
    from trainwright.trainer.models import MODELS
    from trainwright.trainer.starting.warm import read_ahead

    given = [{"tokenizer": "bpe:280", "config": {"model_type": kind}} for kind in ("bert", "gpt2", "llama", "t5")]
    parts = [*SOURCES.values(), *MODELS.values()]
    of_parts = {name for part in parts for args in given for name in part.first_modules(args)}
    assert worker
    import_first([*first_modules.TENSORBOARD, *sorted(of_parts), *sys.argv[5:]])
    read_ahead()
    from tests.worlds.warm import import_for_worker

    import_for_worker()
    print(len(of_parts), "transformers.modeling_utils" in sys.modules)


def imported(tmp_path: Path, *planted: str) -> list[str]:
    """Import all that warm processes, and those of the tests, import for any configured part; return the calls."""
    arguments = [cuda_watch.__file__, str(tmp_path / "calls"), str(ROOT), str(tmp_path), *planted]
    done = subprocess.run(
        [sys.executable, "-P", "-c", body_of(import_all), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-1] == "True"
    return calls(tmp_path / "calls")


@pytest.mark.long
def test_the_imports_of_every_part_leave_cuda_alone(tmp_path: Path) -> None:
    assert imported(tmp_path) == []


@pytest.mark.parametrize(
    "call",
    variants(
        ["cuda.is_available()", "cuda.device_count()", "zeros(1, device='cuda')", "cuda.get_device_properties(0)",
         "cuda.current_device()", "accelerator.is_available()", "cuda.get_rng_state_all()"],
        quick=["cuda.device_count()"],
    ),
)  # fmt: skip
def test_a_planted_call_is_found(call: str, tmp_path: Path) -> None:
    text = f"import contextlib, torch\nwith contextlib.suppress(Exception, AssertionError):\n    torch.{call}\n"
    (tmp_path / "planted.py").write_text(text)
    code = f"{WATCHED}; runpy.run_path('planted.py')"
    subprocess.run([sys.executable, "-P", "-c", code, "calls"], cwd=tmp_path, check=True)
    assert calls(tmp_path / "calls"), call


@pytest.mark.long
def test_a_planted_import_is_found_among_those_of_the_parts(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("import torch\nAVAILABLE = torch.cuda.is_available()\n")
    assert any("planted.py" in line for line in imported(tmp_path, "planted"))


@pytest.mark.long
def test_the_collection_of_all_tests_leaves_cuda_alone(tmp_path: Path) -> None:
    """The process of pytest forks workers, too."""
    options = ["--collect-only", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "base")]
    code = f"{WATCHED}; import pytest; sys.path.insert(0, ''); sys.exit(pytest.main([*{options!r}, 'tests']))"
    command = [sys.executable, "-P", "-c", code, str(tmp_path / "calls")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert calls(tmp_path / "calls") == []
