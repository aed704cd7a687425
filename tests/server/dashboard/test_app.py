"""The view of a run inside an agent's client: for hosts of MCP Apps, in a frame without rights; for others nothing."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
from mcp.client import Client
from mcp.client.extension import advertise
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from tests.server.dashboard.conftest import chromium_of

from trainwright.server.agent_tool import CURVES, RUN_VIEW
from trainwright.server.app import build_server

HOST = """<!doctype html><meta charset="utf-8">
<iframe id="view" sandbox="allow-scripts" width="500" height="700"></iframe>
<script>
window.methods = [];
const ANSWER = {
  hostInfo: { name: "mini", version: "1" }, hostCapabilities: { serverTools: {} }, hostContext: { theme: "dark" },
};
window.addEventListener("message", (event) => {
  const frame = document.getElementById("view").contentWindow;
  if (event.source !== frame) return;
  const { id, method, params } = event.data;
  const send = (message) => frame.postMessage({ jsonrpc: "2.0", ...message }, "*");
  window.methods.push(method);
  if (method === "ui/initialize") send({ id, result: { protocolVersion: params.protocolVersion, ...ANSWER } });
  if (method === "ui/notifications/initialized") {
    send({ method: "ui/notifications/tool-input", params: { arguments: {} } });
    send({ method: "ui/notifications/tool-result", params: window.result });
  }
});
</script>"""


def client(served, *, shows_views: bool) -> Client:
    extensions = [advertise(EXTENSION_ID, {"mimeTypes": [APP_MIME_TYPE]})] if shows_views else []
    return Client(build_server(served.workspace.path), extensions=extensions)


@pytest.mark.long
@pytest.mark.requirement("MON-2")
async def test_hosts_of_views_get_the_curves_and_models_do_not_pay_for_them(served):
    found = {}
    for shows_views in (False, True):
        async with client(served, shows_views=shows_views) as agent:
            found[shows_views] = await agent.call_tool("run_status", {"run_id": served.smoke})
    plain, viewed = found[False], found[True]
    assert CURVES not in (plain.meta or {})
    curves = viewed.meta[CURVES]["curves"]["curves"]
    assert curves["train/loss"]["steps"]
    assert viewed.meta[CURVES]["progress"]["state"] == "completed"
    assert viewed.structured_content == plain.structured_content
    assert viewed.content == plain.content


async def test_the_list_of_tools_is_the_same_for_all_but_for_the_views_address(served):
    lists = []
    for shows_views in (False, True):
        async with client(served, shows_views=shows_views) as agent:
            lists.append([tool.model_dump() for tool in (await agent.list_tools()).tools])
            view = (await agent.read_resource(RUN_VIEW)).contents[0]
    assert lists[0] == lists[1]
    named = {tool["name"] for tool in lists[0] if (tool["meta"] or {}).get("ui") == {"resourceUri": RUN_VIEW}}
    assert named == {"run_status", "diagnose_run", "plot_metrics"}
    assert view.mime_type == APP_MIME_TYPE


@pytest.mark.requirement("MON-2")
async def test_a_host_shows_the_curves_of_an_answer_in_its_sandbox(served, tmp_path):
    program, playwright = chromium_of("playwright.async_api")
    async with client(served, shows_views=True) as agent:
        result = await agent.call_tool("run_status", {"run_id": served.smoke})
        view = (await agent.read_resource(RUN_VIEW)).contents[0].text
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page, complaints = await browser.new_page(), []
        page.on("pageerror", lambda error: complaints.append(str(error)))
        (tmp_path / "host.html").write_text(HOST)
        await page.goto((tmp_path / "host.html").as_uri())
        sent = json.dumps(result.model_dump(mode="json", by_alias=True, exclude_none=True))
        await page.evaluate(f"window.result = {sent}; 0")
        await page.evaluate(f"document.getElementById('view').srcdoc = {json.dumps(view)}; 0")
        frame = page.frame_locator("#view")
        await frame.locator("canvas").first.wait_for()
        text = await frame.locator("main").inner_text()
        methods = await page.evaluate("window.methods")
        await browser.close()
    assert "train/loss" in text
    assert "completed" in text
    assert methods[:2] == ["ui/initialize", "ui/notifications/initialized"]
    assert "ui/notifications/size-changed" in methods
    assert complaints == []


async def test_the_page_is_opened_by_one_call_and_goes_with_its_server(served):
    async with client(served, shows_views=False) as agent:
        answers = [await agent.call_tool("open_dashboard", {}) for _ in range(2)]
        address, again = (answer.structured_content["address"] for answer in answers)
        assert address == again
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address) as page:
            assert b"<title>Trainwright</title>" in page.read()
    with pytest.raises(urllib.error.URLError):
        opener.open(address)


@pytest.mark.slow
@pytest.mark.requirement("MON-2")
async def test_a_tracker_is_opened_by_the_same_call_and_ends_with_the_server(served):
    async with client(served, shows_views=False) as agent:
        answers = [await agent.call_tool("open_dashboard", {"page": "tensorboard"}) for _ in range(2)]
        address, again = (answer.structured_content["address"] for answer in answers)
        assert address == again
        with urllib.request.urlopen(f"{address}/data/runs", timeout=60) as runs:  # noqa: S310 - our own
            assert runs.status == 200
        refused = await agent.call_tool("open_dashboard", {"page": "wandb"})
        assert refused.is_error
        assert "WANDB_API_KEY" in refused.content[0].text
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=10)  # noqa: S310 - our own
