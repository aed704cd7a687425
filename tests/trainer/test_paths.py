"""A path that leads nowhere: what is wrong, and where the file is."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.paths import confine


def test_a_file_that_lies_in_one_folder_below_is_named_with_both_ways_to_it(tmp_path: Path) -> None:
    (tmp_path / "titanic").mkdir()
    (tmp_path / "titanic" / "rows.csv").write_text("a,b\n")
    with pytest.raises(ConfigurationError, match="no file at") as refused:
        confine("rows.csv", tmp_path, key="data.args.path")
    assert refused.value.remedy.endswith("set code_root 'titanic', or name 'titanic/rows.csv'.")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "rows.csv").write_text("a,b\n")
    with pytest.raises(ConfigurationError, match="no file at") as refused:
        confine("rows.csv", tmp_path, key="data.args.path")
    assert refused.value.remedy.endswith("correct the path or code_root.")


@pytest.mark.parametrize(
    ("path", "meant"),
    [("new_pasengers.csv", "new_passengers.csv"), ("x/titanic.csv", "titanic.csv"), ("{titanic,new}.csv", None)],
)
def test_only_a_name_that_is_surely_meant_is_put_in_its_place(tmp_path: Path, path: str, meant: str | None) -> None:
    for name in ("titanic.csv", "new_passengers.csv"):
        (tmp_path / name).write_text("a,b\n")
    with pytest.raises(ConfigurationError, match="no file at") as refused:
        confine(path, tmp_path, key="data.args.path")
    assert refused.value.details["near"] == meant
