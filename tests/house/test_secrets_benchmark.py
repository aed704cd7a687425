"""The scan for secrets on texts drawn for it: every kind planted, nothing innocent accused."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.secret_scan import Finding, found_secrets, masked, masked_values, require_no_secrets
from trainwright.trainer.base.secrets import secret_in
from trainwright.trainer.run import write_generated, write_report

FOLDER = Path(__file__).parents[2] / "benchmarks" / "secrets"
SEED = 8


@pytest.fixture(scope="module")
def drawn() -> Iterator[tuple[ModuleType, ModuleType]]:
    """What benchmarks/secrets draws: planted and innocent texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module("planted"), importlib.import_module("innocent")
        for name in ("planted", "innocent"):
            sys.modules.pop(name, None)


@pytest.mark.requirement("SKILL-8")
def test_every_planted_kind_is_found_on_its_line_and_masked(drawn: tuple[ModuleType, ModuleType]) -> None:
    texts = drawn[0].planted(SEED, 231)
    assert len({one.kind for one in texts}) >= 20
    assert len({one.file for one in texts}) == len(drawn[0].TEMPLATES)
    for one in texts:
        assert [finding.line for finding in found_secrets(one.text)] == [one.line], one
        assert not found_secrets(masked(one.text)), one
        assert masked(one.text) != one.text


@pytest.mark.requirement("SKILL-8")
def test_nothing_innocent_is_found_or_changed(drawn: tuple[ModuleType, ModuleType]) -> None:
    for one in drawn[1].innocent(SEED, 350):
        assert not found_secrets(one.text), one
        assert masked(one.text) == one.text


@pytest.mark.requirement("SKILL-8")
@pytest.mark.parametrize("around", [lambda one: one, lambda one: {"value": one}, lambda one: [{"now": {"of": [one]}}]])
def test_a_value_is_masked_by_the_name_of_any_that_it_lies_in(around: Callable[[str], object]) -> None:
    held, plain = around("Tr0ub4dor&3x!"), around("Tr0ub4dor&3x!")
    assert masked_values({"db": {"password": held}, "label": plain, "passwords_in_use": 3}) == {
        "db": {"password": around("***")}, "label": plain, "passwords_in_use": 3,
    }  # fmt: skip


@pytest.mark.requirement("SKILL-8", "SKILL-10")
def test_placeholders_stand_where_real_keys_are_refused(drawn: tuple[ModuleType, ModuleType]) -> None:
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "SUPABASE_SECRET_KEY", "DB_PASSWORD"):
        assert not found_secrets(f"{name}=churn_prod_your_key_here\n{name}: sk-ant-churn_prod_your_key_here_please\n")
        assert found_secrets(f"{name}={drawn[0].drawn(drawn[0].random.Random(name), 40)}!") != []


@pytest.mark.requirement("SKILL-8")
def test_generated_files_are_written_all_or_none(drawn: tuple[ModuleType, ModuleType], tmp_path: Path) -> None:
    (one,) = drawn[0].planted(SEED, 1)
    secret = next(word for word in one.text.split() if word.startswith("AKIA"))
    with pytest.raises(ConfigurationError) as refused:
        write_generated(tmp_path, {"readme.md": "# fine\n", f"deep/{one.file}": one.text})
    assert f"line {one.line} of deep/{one.file}" in refused.value.message
    assert "AWS access key id" in refused.value.message
    assert "environment variable" in refused.value.remedy
    assert secret not in str(refused.value.as_dict())
    assert list(tmp_path.iterdir()) == []
    assert write_generated(tmp_path, {"deep/readme.md": "# fine\n"})[0].read_text() == "# fine\n"
    write_report(tmp_path / "report.md", one.text)
    assert (tmp_path / "report.md").read_text() == one.text.replace(secret, "***")


@pytest.mark.requirement("SKILL-8")
def test_a_private_key_is_masked_with_all_its_lines() -> None:
    key = "-----BEGIN {}PRIVATE KEY-----\nabc\ndef\n-----END {}PRIVATE KEY-----"
    for kind in ("", "RSA ", "OPENSSH ", "ENCRYPTED "):
        text = f"before\n{key.format(kind, kind)}\nafter\n"
        assert found_secrets(text) == [Finding(2, "private key")]
        assert masked(text) == "before\n***\nafter\n"


@pytest.mark.requirement("SKILL-8")
def test_a_configuration_refuses_the_same_kinds_without_repeating_them(drawn: tuple[ModuleType, ModuleType]) -> None:
    token = "glpat-" + drawn[0].drawn(drawn[0].random.Random(1), 20)
    reason = secret_in(f"clone with {token}")
    assert reason is not None
    assert "GitLab token" in reason
    assert token not in reason
    assert secret_in("churn_prod_your_key_here") is None


@pytest.mark.requirement("SKILL-8")
def test_many_findings_are_counted_and_listed_without_their_text(drawn: tuple[ModuleType, ModuleType]) -> None:
    texts = {f"{index}.txt": one.text for index, one in enumerate(drawn[0].planted(SEED, 40))}
    with pytest.raises(ConfigurationError, match="and 39 more") as refused:
        require_no_secrets(texts)
    assert len(refused.value.details["secrets"]) == 20
    assert all(set(one) == {"file", "line", "kind"} for one in refused.value.details["secrets"])
