"""The reader of documents reads what stands there, so that the documents' tests mean something."""

from __future__ import annotations

import pytest
from tests.house import documents as reader

DOCUMENT = """\
---
id: x
---
# A title, with `code`

Text with [a link](other.md#part) and [another](https://example.org).

<!-- run: shell -->
```bash
true
```

1. In a list:
   <!-- check: config -->
   ```yaml
   a: 1
   ```

```python
unmarked()
```

<!-- check: config -->
Something in between.
```yaml
b: 2
```
"""


@pytest.fixture
def document(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "ROOT", tmp_path)
    path = tmp_path / "skills" / "document.md"
    path.parent.mkdir()
    path.write_text(DOCUMENT, encoding="utf-8")
    return path


def test_blocks_are_found_with_language_kind_and_text(document):
    found = [(block.line, block.language, block.kind, block.text) for block in reader.blocks(document)]
    assert found == [
        (9, "bash", "run: shell", "true"),
        (15, "yaml", "check: config", "a: 1"),
        (19, "python", None, "unmarked()"),
        (25, "yaml", None, "b: 2"),
    ]


def test_a_fence_that_is_never_closed_is_an_error(document):
    document.write_text("```bash\ntrue\n", encoding="utf-8")
    with pytest.raises(ValueError, match="document.md:1"):
        reader.blocks(document)


def test_prose_has_neither_front_matter_nor_blocks(document):
    prose = reader.prose(document)
    assert "id: x" not in prose
    assert "unmarked" not in prose
    assert "Something in between." in prose


def test_links_are_the_relative_ones_and_anchors_those_of_headings(document):
    assert reader.links(document) == ["other.md#part"]
    assert reader.anchors(document) == {"a-title-with-code"}


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('go(a="x", b=1)', {"a": "x", "b": 1}),
        ("go(run_id)", {"run_id": ...}),
        ('go(project, changes={"a.b": <a tenth>})', {"project": ..., "changes": ...}),
        ('go(run_id="…")', {"run_id": ...}),
        ("go(…)", {"...": ...}),
        ("go(a=…, b=[1, …])", {"a": ..., "b": ...}),
    ],
)
def test_calls_are_read_with_their_placeholders(text, arguments):
    (call,) = reader.parse_calls(text, "here")
    assert (call.tool, call.arguments) == ("go", arguments)


@pytest.mark.parametrize("text", ["go", "a.go(x=1)", "go(1)", "x = go(a=1)", "go(a=)"])
def test_what_is_no_tool_call_is_an_error(text):
    with pytest.raises(SyntaxError):
        reader.parse_calls(text, "here")


def test_inline_calls_of_unknown_tools_are_not_overlooked(document):
    document.write_text("Call `run_status(run_id)`, then `no_such_tool(x=1)`, but not `torch.manual_seed(0)`.\n")
    found = [call.tool for call in reader.inline_calls(document, {"run_status": {}})]
    assert found == ["run_status", "no_such_tool"]
