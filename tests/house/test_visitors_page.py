"""The page that a visitor sees first is short, and its pictures and indexes are those that their sources give."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"
ENTRY = '<a id="{anchor}"></a>\n**A title\nover lines.** Text.'


def _module(path):
    spec = importlib.util.spec_from_file_location(f"house_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def picture_modules(monkeypatch):
    """The modules gates and session, imported as `python docs/pictures` imports them."""
    monkeypatch.syspath_prepend(str(PICTURES))
    yield _module(PICTURES / "gates.py"), _module(PICTURES / "session.py")
    sys.modules.pop("svg", None)


@pytest.fixture
def decisions():
    return _module(ROOT / "docs" / "decisions_index.py")


def test_the_readme_has_at_most_150_lines_and_shows_its_pictures():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert all(f"](docs/pictures/{path.name})" in text for path in PICTURES.glob("*.svg"))


def test_the_pictures_are_what_make_pictures_draws(picture_modules):
    gates, session = picture_modules
    transcript = (PICTURES / "demo.txt").read_text(encoding="utf-8")
    drawn = {"gates.svg": gates.draw(), "session.svg": session.draw(transcript)}
    stale = [name for name, picture in drawn.items() if picture != (PICTURES / name).read_text(encoding="utf-8")]
    assert not stale, "run `make pictures`"


@pytest.mark.parametrize("name", ["gates.svg", "session.svg"])
def test_a_picture_is_xml_with_words_for_those_who_cannot_see_it_and_nothing_lies_outside(name):
    picture = ET.parse(PICTURES / name).getroot()  # noqa: S314  a file of our own
    assert picture.find(f"{SVG}title").text
    assert picture.find(f"{SVG}desc").text
    width, height = float(picture.get("width")), float(picture.get("height"))
    for text in picture.iter(f"{SVG}text"):
        assert 0 < float(text.get("x")) < width
        assert 0 < float(text.get("y")) < height
        assert float(text.get("x")) + float(text.get("textLength", 0)) <= width


def test_a_session_is_shortened_and_never_reworded(picture_modules):
    transcript = (PICTURES / "demo.txt").read_text(encoding="utf-8")
    said = " ".join(transcript.split())
    shown = [line.removeprefix("= ") for line in picture_modules[1].scenes(transcript) if line.strip() != "…"]
    assert not [line for line in shown if line not in said]


def test_a_transcript_without_a_scene_is_an_error(picture_modules):
    with pytest.raises(ValueError, match="create_project"):
        picture_modules[1].draw('-> project_status()\n<- Nothing\n-> pass_gate(project="x", phase="planning")\n<- No')


def test_the_index_of_decisions_names_each_entry_once(decisions):
    text = decisions.PAGE.read_text(encoding="utf-8")
    assert decisions.indexed(text) == text, "run `make decisions`"


def test_an_entry_stands_under_its_topic(decisions):
    page = f"# Decisions\n\nWhy.\n\n## 2026-01-02\n\n{ENTRY.format(anchor='data.x')}\n"
    indexed = decisions.indexed(page)
    assert f"**{decisions.TOPICS['data']}**\n\n- [A title over lines](#data.x)\n" in indexed
    assert indexed.endswith(page.partition("Why.\n\n")[2])
    assert decisions.indexed(indexed) == indexed


@pytest.mark.parametrize("anchor", ["x", "nothing.x", "data.taken"])
def test_an_entry_without_an_anchor_of_its_own_is_an_error(decisions, anchor):
    page = f"# D\n\n## 2026-01-02\n\n{ENTRY.format(anchor='data.taken')}\n\n{ENTRY.format(anchor=anchor)}\n"
    with pytest.raises(ValueError, match="A title over lines"):
        decisions.indexed(page)
