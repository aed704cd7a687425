"""Reports are made of templates, and whatever comes from outside is shown in them as text."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.trainer.data.loading import load

from trainwright.tools.documents.rendering import ROOM, Markdown, _environment, as_text, code, fenced, quoted, render
from trainwright.trainer.base.text import LONGEST, one_line, several_lines

FORGED = "age\n\n## Checks\n\n| goal_reached | passed |"
READER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
"""Reads Markdown as the Hub and GitHub do."""
PIECES = ["#", "## ", "\n", "\n\n", "|", "---", "- ", "* ", "1. ", "> ", "`", "```", "~~~", "[", "](", ")", "![", "]: ",
          "<b>", "<!--", "&lt;", "&#35;", "\\", "_", "**", "~~", "=", "===", ":-", "https://x.y", "www.x.y", "\t",
          "\x1b[31m", "\u202e", "\u200b", "\u2028", "\x00", "a", "é", "0.5", " "]  # fmt: skip
OUTSIDE = st.one_of(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(max_size=60))
FEW = settings(max_examples=40, deadline=None)
AT_ANY_PLACE = """
{{ value }}

before {{ value }} after

- {{ value }}

# {{ value }}

| a | b |
| --- | --- |
| {{ value }} | {{ value }} |

text
{{ value }}
"""


def read(text: str) -> list[tuple[str, str]]:
    """Return what a reader of Markdown finds: types of the blocks and spans, and the contents of the texts."""
    found = []
    for token in READER.parse(text):
        found += [(token.type, token.content if token.type == "fence" else "")]
        found += [(child.type, child.content) for child in token.children or ()]
    return joined(found)


def joined(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Join texts beside each other: escapes and entities are texts of their own."""
    texts: list[tuple[str, str]] = []
    for kind, content in found:
        is_text = kind in {"text", "text_special"}
        if is_text and texts and texts[-1][0] == "text":
            texts[-1] = ("text", texts[-1][1] + content)
        elif content or not is_text:
            texts.append(("text" if is_text else kind, content))
    return texts


@pytest.mark.requirement("PHASE-6")
def test_sentences_of_a_comparison_are_shown_to_their_end_in_the_reports() -> None:
    told = f"{'mae on the same rows: the model is worse. ' * 20}A ridge: 395.2; the model is better."
    for report in ("reports/model_card.md.j2", "reports/baseline_results.md.j2"):
        (line,) = [one for one in (ROOM / report).read_text().splitlines() if "{{ rivals" in one]
        assert told in _environment().from_string(line).render(rivals=told), report


@pytest.mark.requirement("PHASE-6", "GATE-6")
@FEW
@given(OUTSIDE)
def test_a_text_is_shown_exactly_and_begins_nothing_wherever_it_stands(value: str) -> None:
    shown = one_line(value) or "-"
    template = _environment().from_string(AT_ANY_PLACE)
    found, plain = read(template.render(value=shown)), read(template.render(value="PLAIN"))
    assert found == [(kind, content.replace("PLAIN", shown)) for kind, content in plain]
    assert template.render(value=value) == template.render(value=one_line(value))


@pytest.mark.requirement("PHASE-6", "GATE-6")
@FEW
@given(OUTSIDE)
def test_code_and_quotations_hold_what_they_are_given(value: str) -> None:
    shown = one_line(value)
    spans = [token for token in read(f"a {code(value)} b") if token[0] == "code_inline"]
    assert spans == ([("code_inline", shown.replace("|", "\\|"))] if shown else [])
    assert [kind for kind, _ in read(fenced(value))] == ["fence"]
    blocks = {kind for kind, _ in read(quoted(value))} - {"inline", "text", "softbreak"}
    assert blocks <= {"blockquote_open", "blockquote_close", "paragraph_open", "paragraph_close"}


@pytest.mark.requirement("GATE-6")
@FEW
@given(st.text(max_size=3 * LONGEST))
def test_no_control_invisible_or_turning_character_is_shown(text: str) -> None:
    for line in (one_line(text), *several_lines(text), as_text(text), code(text)):
        assert line.isprintable()
    assert len(one_line(text)) <= LONGEST


def test_a_long_text_is_cut_and_says_so() -> None:
    assert one_line("x" * 10_000_000, 10) == "x" * 9 + "…"
    assert one_line(" a\t\n b ", 10) == "a b"
    assert several_lines("  a\nb\u202ec\r\n", 9) == ["  a", "bc"]


@pytest.mark.requirement("PHASE-6", "GATE-1")
def test_no_column_header_class_or_intent_forges_a_section_or_a_row_of_the_card(tmp_path: Path) -> None:
    with (tmp_path / "irises.csv").open("w", newline="", encoding="utf-8") as file:
        rows = [["sepal", FORGED, "kind"], *([number, 0.5, ("setosa", FORGED)[number % 2]] for number in range(8))]
        csv.writer(file).writerows(rows)
    data = load("csv", tmp_path / "irises.csv", target="kind")
    assert (data.feature_names, data.class_names) == (["sepal", FORGED], [FORGED, "setosa"])
    card = render(
        "reports/model_card.md.j2",
        name="flowers",
        intent=f"tell irises apart\n{FORGED}",
        columns=["metric", "test"],
        rows=[[FORGED, 0.5]],
        onnx={"inputs": {"input": "tensor(float)"}, "shapes": {"input": ["batch", 4]}},
        served={
            "feature_names": data.feature_names,
            "outputs": {"are": "logits", "shape": [2], "classes": data.class_names},
        },
        checks=[SimpleNamespace(id="goal_reached", status="failed", measured=FORGED, required=0.61234567)],
    )
    lines = card.splitlines()
    assert [line for line in lines if "goal_reached | passed" in line] == []
    assert lines.count("## Checks") == 1
    assert "> \\## Checks" in lines
    inert = r"age ## Checks \| goal_reached \| passed \|"
    assert f"| {inert} | 0.5 |" in lines
    assert f"Columns, in this order: sepal, {inert}." in lines
    assert any(line.endswith(f"Classes, in their order: {inert}, setosa.") for line in lines)
    assert f"| goal_reached | failed | {inert} | 0.612346 |" in lines


def test_numbers_and_markdown_of_our_own_pass_and_what_is_missing_leaves_its_place_empty() -> None:
    assert [as_text(value) for value in (None, 0.1234567, True, -3, "+0.5")] == ["", "0.123457", "True", "-3", "+0.5"]
    assert as_text("a <b> & 'train_loss'") == "a &lt;b> & 'train_loss'"
    study = render("owner/grants.md.j2", granted=[("limit trials = 5", "a *bold* one", "now")])
    text = render("reports/tuning_results.md.j2", name="<flowers>", study=study)
    assert text.startswith("# Tuning results: &lt;flowers>\n")
    assert "\n## Granted by the owner\n" in text
    assert "| limit trials = 5 | a \\*bold\\* one | now |" in text
    assert "\n\n\n" not in text


@pytest.mark.requirement("GATE-6")
def test_whatever_is_done_to_markdown_of_our_own_makes_it_a_text_again() -> None:
    ours, template = Markdown("**ours**"), _environment().from_string("{{ a ~ b }}{{ a + b }}{{ a | upper }}")
    assert template.render(a=ours, b="") == r"\*\*ours\*\*" * 2 + r"\*\*OURS\*\*"


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.j2")), ids=lambda path: path.name)
def test_every_template_is_used_and_writes_no_fence_or_link_round_a_value(path: Path) -> None:
    is_page = path.parent == ROOM / "reports" / "pages"  # HTML: autoescape makes values inert inside a tag too
    name = path.name if is_page else path.relative_to(ROOM).as_posix()
    text = path.read_text(encoding="utf-8")
    others = [file for kind in ("*.py", "*.j2") for file in ROOM.rglob(kind) if file != path]
    assert any(name in file.read_text(encoding="utf-8") for file in others)
    refused = r"\|\s*safe\b|autoescape" if is_page else r"`\{\{|\]\(\{\{(?! link \}\})|<[^>]*\{\{|^```"
    assert not re.findall(refused, text, re.MULTILINE)
