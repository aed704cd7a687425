"""The page that a visitor sees first is short, and its pictures and indexes are those that their sources give."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SVG = "{http://www.w3.org/2000/svg}"
FOLDERS = ("server/", "tools/", "trainer/", "tests/", "docs/", "skills/", "benchmarks/")


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


def test_decisions_are_in_the_index_under_anchors_of_their_own_and_name_files_that_exist():
    texts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "decisions").glob("*.md")}
    index, whole = texts.pop("README.md"), "\n".join(texts.values())
    assert not [name for name in texts if f"]({name})" not in index]
    anchors = re.findall(r'<a id="(.+?)">', whole)
    assert not [anchor for anchor in set(anchors) if anchors.count(anchor) > 1]
    named = {path for path in re.findall(r"`([^`\s]+)`", whole) if path.startswith(FOLDERS)}
    assert not [path for path in named if not (ROOT / path).exists()], "an entry outlived the file that it explains"
