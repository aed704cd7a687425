"""Loading that stays light: what each run of a table or of texts would import anew costs every trial of a search."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.function_text import body_of

ROWS = "age,plan,note,left\n" + "".join(
    f"{20 + number % 50},{'plus' if number % 3 else 'basic'},words {number},{'yes' if number % 2 else 'no'}\n"
    for number in range(80)
)


def load_rows() -> None:
    import json
    import sys
    from pathlib import Path

    from trainwright.trainer.data.sections import SplitSection
    from trainwright.trainer.data.sources import load_source

    for args in json.loads(sys.argv[1]):
        load_source("csv", args, Path.cwd(), SplitSection())
    print(json.dumps([name for name in ("pandas", "pyarrow") if name in sys.modules]))


@pytest.mark.long
@pytest.mark.requirement("TRAIN-11")
def test_a_table_and_texts_are_read_without_pandas(tmp_path: Path) -> None:
    table = {"path": "rows.csv", "target": "left"}
    texts = {**table, "text": "note", "tokenizer": "bytes", "max_length": 16}
    (tmp_path / "rows.csv").write_text(ROWS)
    done = subprocess.run(
        [sys.executable, "-P", "-c", body_of(load_rows), json.dumps([table, texts])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["pyarrow"]
