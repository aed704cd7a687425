"""Run directories with chosen curves, as the monitor's tests have them; and what a drawn figure shows, as text."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tools.training_monitor.conftest import healthy, make_run

from trainwright.tools.figures import style
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.run.evaluation import FILE, Evaluation, Predictions

__all__ = ["healthy", "make_run"]


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were saved, as matplotlib's objects, in order."""
    figures = []
    real = style.save

    def keep(figure, title, path):
        figures.append(figure)
        return real(figure, title, path)

    import sys

    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith(style.__name__.rpartition(".")[0]) and hasattr(module, "save"):
            monkeypatch.setattr(module, "save", keep)
    return figures


@pytest.fixture
def texts():
    """`texts(figure)` returns every text that the figure shows."""

    def of(figure):
        from matplotlib.table import Table
        from matplotlib.text import Text

        tables = [table for axes in figure.axes for table in axes.findobj(Table)]
        cells = [cell.get_text() for table in tables for cell in table.get_celld().values()]
        return [one.get_text() for one in [*figure.findobj(Text), *cells] if one.get_text() and one.get_visible()]

    return of


@pytest.fixture
def predicted(make_run):
    """`predicted(**arrays)` makes a run that recorded these arrays; `evaluation` has further fields."""

    def make(name="predicted", evaluation=None, data=None, **arrays):
        run = make_run(name, **({} if data is None else {"data": data})).run
        with (run.artifacts / FILE).open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        digest = digest_bytes((run.artifacts / FILE).read_bytes())
        values = {"kind": "classes", "epoch": 3, "rows": len(arrays["loss"]), **(evaluation or {})}
        run.write_evidence(Evaluation(predictions=Predictions(digest=digest, arrays=sorted(arrays)), **values))
        return run

    return make
