"""Lines that no parser takes: each is answered, and the server goes on."""

import json
import subprocess

import pytest

from trainwright.server.stdio import request_id

pytestmark = pytest.mark.slow

CALL = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"configure","arguments":{"id":1,"reason":%s}}}'
HOSTILE = {
    "a lone surrogate": '"\\ud800"',
    "deep nesting": "[" * 300 + "]" * 300,
    "a long integer": "9" * 5000,
}


@pytest.mark.requirement("MCP-1")
def test_an_unparsable_line_is_answered_with_its_id(serve_command):
    parameters = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": parameters}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        *(CALL % (number, value) for number, value in enumerate(HOSTILE.values(), start=1)),
        CALL % ('"text"', '"\\ud800"'),
        "no JSON at all",
        "",
        json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}),
    ]
    with subprocess.Popen(
        serve_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in lines:
            process.stdin.write(line + "\n")
        process.stdin.flush()
        answers = {}
        while 9 not in answers:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            answer = json.loads(line)
            answers[answer["id"]] = answer
        process.stdin.close()
    assert set(answers) == {0, 1, 2, 3, "text", None, 9}
    for name in (1, 2, 3, "text", None):
        assert answers[name]["error"]["code"] == -32700
    assert answers[9]["result"]["tools"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"params": {"id": 1, "a": [{"id": 2}]}, "id": 3}', 3),
        ('{"a": "\\"id\\": 1}", "id" : "x", "b": \\ud800}', "x"),
        ('{"method": "id", "b": 1}', None),
        ('[{"id": 4}]', None),
        ('{"id": 1.5}', None),
        ('{"id": ' + "9" * 5000 + "}", None),
    ],
)
def test_the_id_is_found_at_the_top_level_only(line, found):
    assert request_id(line) == found
