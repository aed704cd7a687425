"""Picture of the parameters' importance, by both ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.figures.style import (
    BLUE,
    NORMAL,
    ORANGE,
    SMALL,
    cut,
    figure_legend,
    label,
    new_figure,
    plain,
    save,
)

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.hyperparameter_tuner.analysis.subject import Subject

MOST_BARS = 12
BAR = 0.36
"""Height of a bar, of the place of 1 that each parameter has."""


def shares(subject: Subject, path: Path) -> tuple[Path, str]:
    """Draw each parameter's share by PED-ANOVA and fANOVA, the most important above."""
    found = subject.importance
    keys = found.ranked[:MOST_BARS]
    figure, panels = new_figure(1, 1, 1.6 + 0.5 * max(len(keys), 2))
    axes = panels[0][0]
    ways = (
        ("PED-ANOVA: what tells the best trials from the others", found.ped_anova, BLUE, -BAR / 2),
        ("fANOVA: what the value varies with", found.fanova, ORANGE, BAR / 2),
    )
    for text, way, colour, shift in ways:
        places = [place for place, key in enumerate(keys) if key in way]
        widths = [way[keys[place]] for place in places]
        if places:
            axes.barh([place + shift for place in places], widths, BAR, color=colour, label=text)
        for place, width in zip(places, widths, strict=True):
            axes.text(width + 0.008, place + shift, f"{width:.0%}", va="center", fontsize=SMALL)
    label(axes, "", "share", "", legend=False)
    axes.set_yticks(range(len(keys)), [plain(cut(key, 36)) for key in keys], fontsize=NORMAL)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.08 * max([*found.ped_anova.values(), *found.fanova.values(), 0.1]))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure_legend(figure, [axes])
    return save(figure, f"Importance in {subject.title}, {found.trials} completed trials", path), said(subject)


def said(subject: Subject) -> str:
    """Return the shares in words, or why there are none."""
    found = subject.importance
    lines = [
        f"{name} {', '.join(f'{key} {share:.0%}' for key, share in way.items())}"
        for name, way in (("PED-ANOVA", found.ped_anova), ("fANOVA", found.fanova))
        if way
    ]
    return "; ".join([*lines, *([found.note] if found.note else [])])
