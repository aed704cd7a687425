"""The generated clients, run against the service: Python by its own library, TypeScript compiled, and as it is."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from latency import service
from programs import REMEDIES, installed_stripping_node, run
from web import PROJECT

SCRIPT = """\
import { EXAMPLE, predict, RefusedError } from "./client.js";

const url = process.env.SERVICE_URL;
const many = await predict(Array(300).fill(EXAMPLE), { url });
const odd = [EXAMPLE, EXAMPLE, EXAMPLE, { ...EXAMPLE, planet: "Mars" } as never];
const refused = await predict(odd, { url, mostRows: 2 }).catch((error: RefusedError) => error.errors);
console.log(JSON.stringify({ count: many.length, first: many[0], refused }));
"""


def client_faults(python: Path, parts: Path) -> list[str]:
    """Return what is wrong with client.py."""
    rows = parts / "rows.json"
    script = parts / "client" / "client.py"
    with service(python, parts / "service") as url:
        example = run(python, "-c", "import client, json; print(json.dumps([client.EXAMPLE] * 300))", cwd=script.parent)
        rows.write_text(example, encoding="utf-8")
        found = run(python, script, rows, cwd=parts, SERVICE_URL=url).splitlines()
    return [] if len(found) == 300 and "label" in json.loads(found[0]) else [f"client.py gave {found[:1]}"]


def typed_faults(python: Path, parts: Path) -> list[str]:
    """Return what is wrong with client.ts; the compiler is the form's."""
    if "picture" in parts.name:
        return []  # its example is no picture
    folder = PROJECT / "client"
    folder.mkdir(exist_ok=True)
    try:
        shutil.copy(parts / "client" / "client.ts", folder)
        (folder / "try.ts").write_text(SCRIPT, encoding="utf-8")
        options = ("--target", "es2022", "--module", "nodenext", "--strict", "--outDir", "out", "--ignoreConfig",
                   "--erasableSyntaxOnly")  # fmt: skip
        tsc = PROJECT / "node_modules" / ".bin" / "tsc"
        run(tsc, *options, "--types", "node", "client.ts", "try.ts", cwd=folder)
        with service(python, parts / "service", rate="") as url:
            found = json.loads(run("node", "out/try.js", cwd=folder, SERVICE_URL=url))
    except (RuntimeError, ValueError) as error:
        return [f"client.ts: {error}"]
    finally:
        shutil.rmtree(folder)
    refused = [{"field": "rows[3].planet", "problem": "the model has no such field"}]
    answers = bool({"label", "values", "text"} & found["first"].keys())
    is_right = found["count"] == 300 and answers and found["refused"] == refused
    wrong = [] if is_right else [f"client.ts gave {found}"]
    return wrong + page_faults(python, parts)


def page_faults(python: Path, parts: Path) -> list[str]:
    """Return what is wrong with the snippet of the client's README.md, run by Node in the form given there."""
    node = installed_stripping_node()
    if node is None:
        print(f"README.md of the client is not run. It needs {REMEDIES['stripping']}", flush=True)
        return []
    script = parts / "client" / "try.ts"
    script.write_text(snippet(parts / "client" / "README.md"), encoding="utf-8")
    with service(python, parts / "service", rate="") as url:
        try:
            said = run(node, script.name, cwd=script.parent, SERVICE_URL=url)
        except RuntimeError as error:
            return [f"client/README.md: {error}"]
    return [] if re.search(r"(label|values?|text):", said) else [f"client/README.md gave {said[:200]!r}"]


def snippet(page: Path) -> str:
    """Return the TypeScript of a page."""
    [found] = re.findall(r"^```ts\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return str(found)
