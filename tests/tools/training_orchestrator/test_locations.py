"""Locations: what the owner lets data come from is compared with where a URL leads, not with how it begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.tools.projects.named_files import require_files
from trainwright.tools.training_orchestrator import locations
from trainwright.tools.workspace.settings import Settings
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import TrainingConfig, parse_config
from trainwright.trainer.data.remote.storage import Storage, opened
from trainwright.trainer.data.sources.sql import Query, fetch_rows

pytestmark = pytest.mark.requirement("TRAIN-1", "GATE-4")
ALLOWED = ["postgresql://allowed/*", "postgresql://me@allowed/*", "https://allowed/*", "s3://ours/rows/*"]
ELSEWHERE = [
    "postgresql://allowed/db?host=other",
    "postgresql://allowed/db?HOST=other&sslmode=require",
    "postgresql://allowed/db?hostaddr=10.0.0.1",
    "postgresql://allowed/db?port=5433",
    "postgresql://allowed/db?service=other",
    "postgresql://allowed/db?passfile=/tmp/x",
    "postgresql://allowed:5432/db@other/db",
    "postgresql://allowed/db%3Fhost=other",
    "postgresql://allowed/host=other",
]
UPWARDS = [
    "https://allowed/../other/x.csv",
    "https://allowed/a/%2e%2e/%2E./x.csv",
    "https://allowed/%252e%252e/x.csv",
    "https://allowed/a\\..\\x.csv",
    "https://allowed/.\t./x.csv",
    "https://allowed%40other/x.csv",
    "s3://ours/rows/../secret/x.csv",
    "s3://ours/rows/x?/../../y.csv",
]


def config(use: str, **args: Any) -> TrainingConfig:
    return parse_config({"model": {"use": "mlp"}, "data": {"use": use, "args": {"target": "y", **args}}})


@pytest.mark.parametrize("url", ELSEWHERE)
def test_a_database_url_that_leads_to_another_server_is_refused_everywhere(url: str, tmp_path: Path) -> None:
    asked = config("sql", url=url, table="t")
    for settings in (Settings(data_locations=ALLOWED), Settings()):
        with pytest.raises(ConfigurationError, match="not a URL that a configuration may hold") as refused:
            locations.connections(settings, asked)
        assert "url_env" in refused.value.remedy
    with pytest.raises(ConfigurationError, match="may hold"):
        require_files({"data.args.url": url}, asked, tmp_path)
    with pytest.raises(ConfigurationError, match="may hold"):
        fetch_rows(Query(url=url, table="t"), tmp_path)


@pytest.mark.parametrize("url", UPWARDS)
def test_a_path_that_leads_out_of_an_allowed_place_is_refused_everywhere(url: str, tmp_path: Path) -> None:
    for asked in (config("csv", path=url), config("csv", path=["s3://ours/rows/1.csv", url])):
        with pytest.raises(ConfigurationError, match="leads elsewhere than it reads"):
            locations.connections(Settings(data_locations=ALLOWED), asked)
        with pytest.raises(ConfigurationError, match="leads elsewhere"):
            require_files({"data.args.path": url}, asked, tmp_path)
    with pytest.raises(ConfigurationError, match="leads elsewhere"):
        opened(url, Storage())


def test_places_that_lead_where_they_read_are_compared_with_the_owners(tmp_path: Path) -> None:
    settings = Settings(data_locations=ALLOWED)
    for asked in (
        config("sql", url="postgresql://allowed/db?sslmode=require&application_name=x", table="t"),
        config("sql", url="postgresql://me@allowed/db", table="t"),
        config("csv", path="https://allowed/a..b/x.csv?v=1..2"),
        config("csv", path=["s3://ours/rows/*.csv", "s3://ours/rows/1.csv"]),
    ):
        assert locations.connections(settings, asked) == {}
    for asked in (
        config("sql", url="postgresql://other/db", table="t"),
        config("sql", url="postgresql://allowed:5433/db", table="t"),
        config("csv", path="https://allowed.other/x.csv"),
        config("csv", path=["s3://ours/rows/1.csv", "s3://ours/other.csv"]),
    ):
        with pytest.raises(ConfigurationError, match="let no data come from"):
            locations.connections(settings, asked)
