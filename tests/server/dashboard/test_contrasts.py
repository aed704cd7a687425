"""Colours of the page: every pair that meets there can be told apart (WCAG 2.2, AA), in light and in dark."""

from __future__ import annotations

import re

import pytest

from trainwright.server.dashboard.application import FOLDER

PAIR = re.compile(r"--([\w-]+): light-dark\(#([0-9a-f]{6}), #([0-9a-f]{6})\)")
COLOURS = {name: pair for name, *pair in PAIR.findall((FOLDER / "page.css").read_text(encoding="utf-8"))}
TEXT = ("ink", "soft", "accent", "good", "warn", "bad")
GRAPHICS = ("edge", *(f"series-{number}" for number in range(1, 9)))
GROUNDS = ("ground", "card", "raised")
THEMES = {"light": 0, "dark": 1}


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.requirement("MON-2")
@pytest.mark.parametrize("theme", THEMES)
def test_text_and_graphics_stand_out_from_their_grounds(theme):
    place = THEMES[theme]
    weak = [
        (name, ground)
        for names, least in ((TEXT, 4.5), (GRAPHICS, 3.0))
        for name in names
        for ground in GROUNDS
        if contrast(COLOURS[name][place], COLOURS[ground][place]) < least
    ]
    assert not weak


def test_the_measure_is_the_standards():
    assert contrast("000000", "ffffff") == pytest.approx(21)
    assert contrast("777777", "ffffff") == pytest.approx(4.48, abs=0.01)
