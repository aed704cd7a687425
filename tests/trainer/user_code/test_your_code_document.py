"""Every example of user code in configs/ trains, exactly as it is printed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.whole_runs import train_here

from trainwright.tools.documents import SKILL
from trainwright.trainer.config import load_yaml
from trainwright.trainer.run import RunState

_spec = importlib.util.spec_from_file_location(
    "house_documents_of_user_code", Path(__file__).parents[2] / "house" / "documents.py"
)
assert _spec is not None
assert _spec.loader is not None
reader = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = reader
_spec.loader.exec_module(reader)

DOCUMENT = SKILL.resolve() / "configs" / "your_code.md"
EXAMPLES = [
    block
    for document in sorted(DOCUMENT.parent.glob("*.md"))
    for block in reader.blocks(document)
    if block.kind == "run: user-code"
]
FLOWERS = "length,width,kind\n" + "".join(f"{n % 7},{n % 5},{int(n % 7 > 3)}\n" for n in range(60))


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda block: block.text.split()[1])
def test_an_example_trains_as_it_is_printed(example: Any, tmp_path: Path, make_run: Any, work: Any) -> None:
    _, file, configuration = example.text.splitlines()[0].split(" ", 2)
    (tmp_path / file).write_text(example.text)
    (tmp_path / "flowers.csv").write_text(FLOWERS)
    values = {"logging": {"tensorboard": False}, **load_yaml(configuration)}
    values = values if "trainer" in values else {"training": {"epochs": 2}, **values}
    run = make_run(tmp_path / "run-1", values, max_steps=12)
    if "task" in values:
        train_here(run)
    else:  # a library's trainer, or data of ours
        assert work(run) == 0, run.log.read_text()
    status = run.status()
    assert status.state is RunState.COMPLETED
    assert status.step > 0
    measured = run.metrics().keys()
    named = [one if isinstance(one, str) else one["use"] for one in values.get("metrics", ())]
    assert {f"validation/{name.split(':')[-1]}" for name in named} <= set(measured)


def test_every_key_that_a_task_may_return_is_explained() -> None:
    from trainwright.trainer.assembly.build import KEYS

    told = DOCUMENT.read_text(encoding="utf-8").split("## What `build` may return")[1]
    assert [key for key in KEYS if f"`{key}`" not in told] == []
