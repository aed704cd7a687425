"""Documents as resources and through a tool: all of the skill, nothing beside it."""

import json
import re

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference
from tests.server.conftest import text_of

from trainwright.server import documents
from trainwright.server.documents import document_paths
from trainwright.tools.documents import SKILL
from trainwright.tools.gates.checklist import load_checklist
from trainwright.tools.gates.phases import Phase

OUTSIDE = [
    "../../pyproject.toml",
    "..",
    "/etc/passwd",
    "phases/../../../README.md",
    "phases/01_planning/../../../../LICENSE",
    "..\\..\\pyproject.toml",
    "%2e%2e/%2e%2e/pyproject.toml",
    "SKILL.md\x00.md",
    "file:///etc/passwd",
]


def file_of(path):
    """The file of a document: of the main skill, or of another whose name its path begins with."""
    return SKILL / path if (SKILL / path).is_file() else SKILL.parent / path


def text_in(path):
    """What readers see of a document: not the lines that tell tests how to run an example."""
    return "".join(line for line in file_of(path).read_text().splitlines(keepends=True) if line[:4] != "<!--")


@pytest.mark.requirement("MCP-2")
async def test_an_empty_workspace_is_answered_with_the_page_that_most_jobs_need(in_memory):
    async with in_memory() as agent:
        answer = await agent.call("project_status")
        page = text_in("begin.md")
        for told in (answer.structured_content["begin"], text_of(answer)):
            assert page in told
        assert len(agent.client.instructions + answer.structured_content["begin"]) / 4 < 1500, "tokens"
        begin = answer.structured_content["next"]
        planned = await agent.get(begin["tool"], **begin["arguments"])
        assert [one["argument"] for one in planned["questions"]] == ["data"]
        await agent.project()
        assert {"next", "begin"}.isdisjoint(await agent.get("project_status"))


@pytest.mark.parametrize(
    ("words", "section"),
    [
        ("how do I roll back to an earlier version", "phases/promotion.md"),
        ("split by groups of patients", "configs/splits.md"),
        ("out of memory on my GPU", "memory"),
        ("class imbalance loss weights", "diagnostics/class_imbalance.md"),
        ("torchscript", "checkpointing/deployment_export.md"),
        ("gradient boosting comparison", "configs/metrics.md#a-rival"),
        ("which inputs matter most", "phases/05_finalization/workflow.md#which-inputs-matter"),
        ("feature importance permutation", "phases/05_finalization/workflow.md#which-inputs-matter"),
        ("ft_transformer", "configs/models.md"),
    ],
)
@pytest.mark.requirement("MCP-2")
async def test_free_words_are_answered_with_the_sections_about_them(in_memory, words, section):
    async with in_memory() as agent:
        said = text_of(await agent.call("read_document", path=words))
        lines = [line for line in said.splitlines() if line.startswith("- ")]
        assert any(section in line for line in lines[:3]), said
        first = lines[0].removeprefix("- ").partition(": ")[0]
        assert text_of(await agent.call("read_document", path=first))
        assert "There is no document" in await agent.refusal("read_document", path="xyzzyx qwrtz")


@pytest.mark.requirement("MCP-2")
async def test_a_document_is_found_by_its_bare_name_and_by_other_names_of_the_argument(in_memory):
    async with in_memory() as agent:
        whole = text_of(await agent.call("read_document", path="phases/04_optimization/ablation.md"))
        assert text_of(await agent.call("read_document", path="ablation")) == whole
        for other in ("query", "topic", "key"):
            assert whole in text_of(await agent.call("read_document", **{other: "ablation"}))
        assert "There is no document" in await agent.refusal("read_document", path="workflow"), "each phase has one"


@pytest.mark.parametrize("section", ["evaluation_gate", "target_scaling"])
@pytest.mark.requirement("MCP-2", "CONF-1")
async def test_a_section_of_the_configuration_is_answered_with_what_the_documents_say_of_it(in_memory, section):
    async with in_memory() as agent:
        said = text_of(await agent.call("read_document", path=section))
        assert said.startswith(f"`{section}` in the documents")
        assert "configs/" in said


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.requirement("GATE-5")
async def test_nothing_outside_the_skill_can_be_read(in_memory, path):
    async with in_memory() as agent:
        said = await agent.refusal("read_document", path=path)
        assert "There is no document" in said
        assert "root:" not in said
        with pytest.raises(MCPError):
            await agent.client.read_resource(f"trainwright://documents/{path}")


async def test_a_link_out_of_the_skill_is_not_followed(in_memory, tmp_path, monkeypatch):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    skill = tmp_path / "skill"
    skill.mkdir()
    for name in ("SKILL.md", "begin.md"):
        (skill / name).write_text("# Skill\n")
    (skill / "leak.md").symlink_to(secret)
    monkeypatch.setattr(documents, "SKILL", skill)
    document_paths.cache_clear()
    try:
        async with in_memory() as agent:
            assert "There is no document" in await agent.refusal("read_document", path="leak.md")
    finally:
        document_paths.cache_clear()


@pytest.mark.parametrize("path", [".", "/", "./"])  # an empty one counts as left out
async def test_no_path_is_answered_with_the_index(in_memory, path):
    async with in_memory() as agent:
        said = await agent.refusal("read_document", path=path)
    assert "There is no document" in said
    assert 'Remedy: read_document(path="SKILL.md"), the index' in said
    assert "phases/01_planning/checklist.md" in said


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("phases/planing/checklist.md", "phases/01_planning/checklist.md"),
        ("nan_los", "diagnostics/nan_loss.md"),
        ("diagnostics/overfit.md", "diagnostics/overfitting.md"),
        ("configs/baselin.yaml", "configs/baseline_template.yaml"),
    ],
)
async def test_a_wrong_path_names_what_was_meant(in_memory, wrong, meant):
    async with in_memory() as agent:
        said = await agent.refusal("read_document", path=wrong)
    assert f'Remedy: read_document(path="{meant}")' in said


@pytest.mark.requirement("SKILL-2", "SKILL-6")
@pytest.mark.parametrize(
    ("linked", "path"),
    [
        ("skills/ml-trainer/phases/WORKFLOW.md", "phases/WORKFLOW.md"),
        ("../ml-trainer/configs/text.md", "configs/text.md"),
        ("skills/training-patterns/lora.yaml", "training-patterns/lora.yaml"),
        ("../training-patterns/SKILL.md", "training-patterns/SKILL.md"),
    ],
)
async def test_a_document_answers_to_the_path_that_a_link_to_it_has(in_memory, linked, path):
    async with in_memory() as agent:
        assert await agent.read("read_document", path=linked) == await agent.read("read_document", path=path)


async def test_pages_join_to_the_whole_document(in_memory):
    longest = max(document_paths(), key=lambda path: len(text_in(path)))
    async with in_memory() as agent:
        pages = [await agent.read("read_document", path=longest)]
        while more := re.search(r"\nNext: read_document\(path=.*, offset=(\d+)\) - the next page[^\n]*$", pages[-1]):
            pages.append(await agent.read("read_document", path=longest, offset=int(more.group(1))))
        assert len(pages) > 1
        bodies = [page.partition("\n\n")[2].partition("\nNext: read_document(path=")[0] for page in pages]
        assert "".join(bodies) == text_in(longest)
        assert "beyond" in await agent.refusal("read_document", path=longest, offset=10**7)


async def test_every_document_can_be_read_and_is_in_the_index_and_the_list_stays_short(in_memory):
    async with in_memory() as agent:
        listed = (await agent.client.list_resources()).resources
        assert len(json.dumps([one.model_dump(mode="json", exclude_none=True) for one in listed])) < 1500
        index = (await agent.client.read_resource("trainwright://documents")).contents[0].text
        for path in document_paths():
            uri, (_, _, name) = f"trainwright://documents/{path}", path.rpartition("/")
            (line,) = [line for line in index.splitlines() if line.startswith(f"- {uri.removesuffix(name)}: ")]
            assert name in line.partition(": ")[2].split(", ")
            read = await agent.client.read_resource(uri)
            assert read.contents[0].text == text_in(path)


async def test_a_section_of_a_document_is_read_alone_and_the_page_before_names_it(in_memory):
    async with in_memory() as agent:
        first = await agent.read("read_document", path="configs/searches.md")
        assert len(first) < 3200
        assert "sections to come: #methods, #several-objectives, #gpus" in first.splitlines()[-1]
        section = await agent.read("read_document", path="configs/searches.md#gpus")
        assert section.partition("\n\n")[2].startswith("## GPUs")
        said = await agent.refusal("read_document", path="configs/searches.md#gpu")
        assert 'read_document(path="configs/searches.md#gpus")' in said


async def test_a_key_is_answered_with_what_the_documents_say_of_it(in_memory):
    async with in_memory() as agent:
        said = await agent.read("read_document", path="evaluation_gate.reference")
        assert "configs/pipeline.md:" in said
        assert said.count("evaluation_gate.reference") > 1
        rows = await agent.read("read_document", path="search.pruning.bracket")
        assert "| `search.pruning.bracket` |" in rows
        assert "search.trials" not in rows, "other rows of the table"
        assert len(said) < 2000
        assert "There is no document" in await agent.refusal("read_document", path="no.such_key")


@pytest.mark.requirement("PHASE-9")
@pytest.mark.parametrize("phase", list(Phase))
async def test_the_checklist_that_an_agent_reads_is_the_one_that_is_computed(in_memory, phase):
    async with in_memory() as agent:
        text = await agent.read("read_document", path=phase.document)
        for line in load_checklist(phase).checks:
            assert f"id: {line.id}" in text
        if phase is Phase.PLANNING:
            await agent.project()
            status = await agent.get("project_status", project="iris", detail="full")
            assert [check["id"] for check in status["checks"]] == [line.id for line in load_checklist(phase).checks]


async def test_paths_names_and_ids_are_completed(in_memory):
    async with in_memory() as agent:
        await agent.project("iris")
        await agent.project("other")

        async def completed(reference, name, value):
            result = await agent.client.complete(reference, {"name": name, "value": value})
            return result.completion.values

        documents = ResourceTemplateReference(type="ref/resource", uri="trainwright://documents/{+path}")
        assert await completed(documents, "path", "phases/plan") == sorted(
            path for path in document_paths() if path.startswith("phases/plan")
        )
        prompt = PromptReference(type="ref/prompt", name="finalize_and_export")
        assert await completed(prompt, "project", "ir") == ["iris"]
        runs = ResourceTemplateReference(type="ref/resource", uri="trainwright://runs/{+run_id}/status")
        assert await completed(runs, "run_id", "") == []
        assert await completed(prompt, "colour", "bl") == []


async def test_an_unknown_run_resource_is_not_found(in_memory):
    async with in_memory() as agent:
        with pytest.raises(MCPError, match="There is no run"):
            await agent.client.read_resource("trainwright://runs/nope/status")


@pytest.mark.requirement("GATE-5", "MCP-1")
@pytest.mark.parametrize(
    "path",
    [
        "reports/../../workspace.sqlite",
        "reports/secret.md",
        "reports/runs/smoke/run.json",
        "reports/plots/../training_config.yaml",
        "pictures//etc/passwd",
        "pictures/diagnostic_report.md",
    ],
)
async def test_only_reports_and_pictures_of_a_project_are_served(in_memory, workspace, tmp_path, path):
    async with in_memory() as agent:
        await agent.project()
        folder = workspace / "projects" / "iris"
        (folder / "diagnostic_report.md").write_text("# Report\n")
        (tmp_path / "secret.md").write_text("secret")
        (folder / "secret.md").symlink_to(tmp_path / "secret.md")
        read = await agent.client.read_resource("trainwright://projects/iris/reports/diagnostic_report.md")
        assert read.contents[0].text == "# Report\n"
        with pytest.raises(MCPError):
            await agent.client.read_resource(f"trainwright://projects/iris/{path}")
