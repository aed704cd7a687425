"""Files of a job: what a platform would fail at later is refused first, and its own programs take the rest."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.tools.clouds.programs import PROGRAMS, companion, verdict
from tests.tools.clouds.rendered_jobs import CLUSTERS, FILES, OPTIONS, compile_shell, rendered
from tests.worlds.flowers import CONFIG, GOAL, NAME, write_code
from tests.worlds.warm import trainwright_command

from trainwright.tools import projects
from trainwright.tools.clouds import PLATFORMS, asked_gpu, gpu_table, read_cloud_request, render_cloud
from trainwright.tools.training_architect.hardware import accelerators
from trainwright.tools.workspace import Settings, Workspace
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, LimitReachedError, TrainwrightError

pytestmark = pytest.mark.requirement("COST-2")
COMMON = {"entry.sh", "trainwright.yaml", "settings.yaml", "requirements.txt", "README.md", ".env.example"}


@pytest.mark.parametrize(
    ("given", "what", "nearest"),
    [
        ({"gpu": "H1OO"}, "has no GPU 'H1OO'", "H100:1"),
        ({"gpu": "H100:0"}, "1 to 8 H100", "H100:1"),
        ({"gpu": "H100:99"}, "not 99", "H100:8"),
        ({"gpu": "A10:8"}, "1 to 4 A10", "A10:4"),
        ({"gpu": "H100:-1"}, "not -1", "H100:1"),
        ({"gpu": "H100:two"}, "is not NAME or NAME:COUNT", "T4:1"),
        ({"gpu": "RTX 4090"}, "has no GPU", "nearest name"),
        ({"hours": -3}, "--hours '-3'", "0.1 is the nearest"),
        ({"hours": float("nan")}, "--hours", "Another --hours"),
        ({"idle_minutes": 0}, "--idle-minutes", "1 is the nearest"),
        ({"region": "us east!"}, "as us-east-1", "any will do"),
        ({"platform": "modl"}, "is no platform", "--on modal"),
        ({"stage": "trainin"}, "--stage 'trainin'", "--stage training"),
        ({"secrets": ("key = value",)}, "--secret 'key = value'", "Another --secret"),
        ({"platform": "lambda", "gpu": "A10", "spot": True}, "--spot: lambda has no use for it", "--on runpod"),
        ({"platform": "slurm", "gpu": "h100", "secrets": ("a", "b")}, "--secret a, b: slurm has no use", "sbatch"),
        ({"platform": "skypilot", "gpu": "L4", "secrets": ("a",)}, "--secret a: skypilot has no use", "by name"),
        ({"platform": "lambda", "gpu": "A10", "volume": "v"}, "--volume v: lambda has no use", "without --volume"),
        ({"bucket": "b"}, "--bucket b: modal has no use", "without --bucket"),
        ({"platform": "kubernetes", "gpu": "NVIDIA-L4", "image": "i", "region": "us"}, "--region us", "without"),
        ({"image": "i"}, "takes --idle-minutes, --region, --secret, --volume", "without --image"),
        ({"platform": "skypilot", "gpu": "L4", "spot": True}, "would go with the machine", "--bucket tw-"),
        ({"platform": "lambda", "gpu": "A10", "region": "us-eest-1"}, "no region", "us-"),
        ({"platform": "kubernetes", "gpu": "NVIDIA-L4"}, "needs --image", "--image"),
        (
            {"platform": "kubernetes", "gpu": "NVIDIA-L4", "image": "i", "idle_minutes": 5},
            "--idle-minutes 5: kubernetes has no use for it",
            "there is no idle time-out",
        ),
        ({"platform": "slurm", "gpu": "h100", "idle_minutes": 5}, "--idle-minutes 5", "there is no idle time-out"),
        (
            {"platform": "kubeflow", "gpu": "NVIDIA-L4", "image": "i", "secrets": ("a",)},
            "--secret a: a TrainJob takes",
            "without --secret",
        ),
        (
            {"platform": "kubernetes", "gpu": "NVIDIA-L4", "image": "i", "spot": True, "spot_taint": "a=b:Never"},
            "--spot-taint 'a=b:Never'",
            "Another --spot-taint",
        ),
        (
            {"platform": "kubernetes", "gpu": "NVIDIA-L4", "image": "i", "spot_taint": "a=b"},
            "without --spot",
            "with --spot",
        ),
        ({"platform": "slurm", "gpu": "h100", "spot_taint": "a=b"}, "--spot-taint a=b: slurm has no use", "without"),
    ],
)
def test_what_the_platforms_would_accept_and_fail_at_later_is_refused_with_the_nearest(
    left_alone: Workspace, tmp_path: Path, *, given: dict[str, Any], what: str, nearest: str
) -> None:
    folder = tmp_path / "job"
    options = {"platform": "modal", "gpu": "H100", **given}
    with pytest.raises(TrainwrightError) as refused:
        render_cloud(left_alone, read_cloud_request(project=NAME, **options), folder)
    assert what in refused.value.message
    assert nearest in refused.value.remedy
    assert not folder.exists(), "nothing is written before all is checked"


@pytest.mark.long
def test_every_gpu_of_the_list_is_an_accelerator_that_is_known() -> None:
    rows, _ = accelerators()
    table = gpu_table()
    assert set(table.platforms) == set(PLATFORMS) - {"kubeflow"}
    for platform, own in table.platforms.items():
        assert own.source
        assert set(own.most_of) <= set(own.names)
        for name, accelerator in own.names.items():
            assert accelerator in rows, (platform, name)
            found = asked_gpu(platform, f"{name.lower()}:1")
            assert (found.name, found.device.name) == (name, accelerator)
    assert asked_gpu("slurm", "H100 SXM").name == "h100", "our own name, where one of the platform's has it"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_each_platforms_files_hold_the_project_its_limits_and_no_secret(
    left_alone: Workspace, tmp_path: Path, platform: str
) -> None:
    """And its README says that nothing is reserved, and what the time-out spans."""
    texts = rendered(left_alone, platform, tmp_path / "job", hours=2)
    assert set(texts) == COMMON | {FILES[platform]} | CLUSTERS.get(platform, set())
    definition = yaml.safe_load(texts["trainwright.yaml"])
    assert (definition["project"], definition["goal"]) == (NAME, GOAL)
    assert definition["config"]["training"]["epochs"] == CONFIG["training"]["epochs"]
    assert "code_root" not in definition["config"]
    settings = yaml.safe_load(texts["settings.yaml"])
    assert settings["limits"]["run_wall_clock_seconds"] == 7200.0
    own = texts[FILES[platform]]
    assert asked_gpu(platform, OPTIONS[platform]["gpu"]).name in own
    if platform == "slurm":
        assert "--time=02:00:00" in own
        assert "--gpus-per-node=a100_80gb:4" in own
    else:
        assert "7200" in own
    for secret in OPTIONS[platform].get("secrets", ()):
        assert secret in own
    assert (platform == "slurm") == ("not made" in texts["README.md"]), "checks that were not made are named"
    compile_shell(texts["entry.sh"])
    readme = " ".join(texts["README.md"].split())
    assert "nothing is reserved by writing a job" in readme
    spans_all = platform in CLUSTERS
    assert ("All starts together end 2 hours after the first" in readme) == spans_all
    assert ("Each start ends after 2 hours at the latest" in readme) != spans_all
    has_idle = platform in {"modal", "lambda", "runpod", "skypilot"}
    assert ("given back after 10 minutes" in readme) == has_idle
    assert ("has no idle time-out" in readme) != has_idle


def test_what_the_limits_leave_goes_with_the_job_and_no_more(home: Workspace) -> None:
    settings = home.path / "settings.yaml"
    text = settings.read_text().replace("price_per_gpu_hour: 0.0", "price_per_gpu_hour: 4.0")
    settings.write_text(text.replace("  money: 500.0", "  money: 40.0"))
    workspace = Workspace.open(home.path)
    request: dict[str, Any] = {"platform": "modal", "gpu": "H100:2"}
    with pytest.raises(LimitReachedError, match=r"goes beyond money: 5 are left") as refused:
        render_cloud(workspace, read_cloud_request(project=NAME, **request, hours=6), home.path.parent / "job")
    assert "--hours 5" in refused.value.remedy
    done = render_cloud(workspace, read_cloud_request(project=NAME, **request), home.path.parent / "job")
    written = yaml.safe_load((done.folder / "settings.yaml").read_text())
    assert (written["price_per_gpu_hour"], written["limits"]["money"]) == (4.0, 40.0)
    assert "timeout=18000" in (done.folder / "modal_job.py").read_text(), "40 at 8 an hour are five hours"
    with pytest.raises(ConflictError, match="not empty"):
        render_cloud(workspace, read_cloud_request(project=NAME, **request), home.path.parent / "job")
    workspace.close()


def test_a_price_of_the_owners_file_counts_the_money_on_that_platform(home: Workspace) -> None:
    (home.path / "prices.yaml").write_text(
        "columns: [platform, accelerator, price_per_hour, date, source, spot]\nrows:\n"
        "- [RunPod, RTX 4090, 0.5, 2026-11-20, invented, false]\n"
        "- [RunPod, RTX 4090, 0.2, 2026-11-20, invented, true]\n"
    )
    texts = rendered(home, "runpod", home.path.parent / "spot")
    assert yaml.safe_load(texts["settings.yaml"])["price_per_gpu_hour"] == 0.2
    texts = rendered(home, "runpod", home.path.parent / "lasting", spot=False)
    assert yaml.safe_load(texts["settings.yaml"])["price_per_gpu_hour"] == 0.5
    assert "money is not counted" not in texts["README.md"]


def test_git_is_where_the_owner_wants_the_code_in_a_repository(home: Workspace) -> None:
    def texts(platform: str, workspace: Workspace, folder: str) -> dict[str, str]:
        return rendered(workspace, platform, home.path.parent / folder / platform)

    assert "apt-get" not in texts("runpod", home, "free")["skypilot.yaml"]
    assert "and git" not in texts("kubernetes", home, "free")["README.md"]
    own = home.path / "settings.yaml"
    own.write_text(own.read_text().replace("require_git: false", "require_git: true"))
    workspace = Workspace.open(home.path)
    sky = texts("runpod", workspace, "strict")
    setup = yaml.safe_load(sky["skypilot.yaml"])["setup"]
    assert setup.index("install -y git") < setup.index("pip install")
    assert "leaves .git out" in sky["README.md"]
    compile_shell(setup)
    assert '.apt_install("git")' in texts("modal", workspace, "strict")["modal_job.py"]
    for platform in CLUSTERS:
        told = texts(platform, workspace, "strict")["README.md"]
        assert "and git, since the owner wants the code in a repository" in told
        assert "--no-same-owner" in told, "git trusts no repository of another user"
    workspace.close()


def test_credentials_of_the_data_are_required_by_name(home: Workspace, tmp_path: Path) -> None:
    projects.configure(
        home,
        NAME,
        changes={
            "data": {
                "use": "sql",
                "args": {"url_env": "CHURN_DB_URL", "query": "select x, y from t order by x", "target": "y"},
            }
        },
    )
    with pytest.raises(ConfigurationError, match="these are 1 and 0"):
        rendered(home, "kubeflow", home.path.parent / "job")
    texts = rendered(home, "kubeflow", home.path.parent / "job", secrets=("warehouse",))
    assert '"${CHURN_DB_URL:?' not in texts["trainjob.yaml"]
    assert ': "${CHURN_DB_URL:?is not set' in texts["entry.sh"]
    env = yaml.safe_load(texts["trainjob.yaml"])["spec"]["trainer"]["env"]
    assert {"name": "CHURN_DB_URL", "valueFrom": {"secretKeyRef": {"name": "warehouse", "key": "CHURN_DB_URL"}}} in env
    assert "CHURN_DB_URL: null" in rendered(home, "runpod", home.path.parent / "sky")["skypilot.yaml"]
    done = subprocess.run(
        ["bash", str(home.path.parent / "job" / "entry.sh")],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "CHURN_DB_URL" in done.stderr


def test_the_job_has_the_owners_rules_on_data_and_no_connection_that_it_does_not_name(home: Workspace) -> None:
    own = home.path / "settings.yaml"
    own.write_text(
        own.read_text().replace("require_git: false", "require_git: true")
        + "connections:\n  ours: {url_env: OUR_DB_URL}\n  other: {url_env: OTHER_DB_URL}\n"
        "data_locations: ['sql://ours']\ndata_variables: ['OUR_*']\n"
    )
    workspace, request = Workspace.open(home.path), {"platform": "runpod", "gpu": "RTX4090", "spot": False}
    texts = rendered(workspace, folder=home.path.parent / "csv", **request)
    assert "OTHER_DB_URL" not in "".join(texts.values())
    written = Settings.model_validate({**yaml.safe_load(texts["settings.yaml"])})
    assert (written.data_locations, written.data_variables, written.require_git) == (["sql://ours"], ["OUR_*"], True)
    sql = {"use": "sql", "args": {"profile": "ours", "query": "select x, y from t order by x", "target": "y"}}
    projects.configure(workspace, NAME, changes={"data": sql})
    texts = rendered(workspace, folder=home.path.parent / "sql", **request)
    assert yaml.safe_load(texts["settings.yaml"])["connections"] == {"ours": {"url_env": "OUR_DB_URL"}}
    assert ': "${OUR_DB_URL:?' in texts["entry.sh"]
    placeholders = [line for line in texts[".env.example"].splitlines() if not line.startswith("#")]
    assert placeholders == [
        f"RUNPOD_API_KEY={NAME}_prod_your_key_here", f"OUR_DB_URL={NAME}_prod_your_url_here",
    ]  # fmt: skip
    workspace.close()


def test_an_owner_who_lets_no_data_come_from_elsewhere_lets_none_there_either(home: Workspace) -> None:
    own = home.path / "settings.yaml"
    own.write_text(own.read_text() + "data_locations: []\n")
    workspace = Workspace.open(home.path)
    texts = rendered(workspace, "slurm", home.path.parent / "job")
    assert yaml.safe_load(texts["settings.yaml"])["data_locations"] == []
    assert "want no key" in texts[".env.example"]
    workspace.close()


def test_an_environment_of_this_machine_is_refused_and_a_job_without_it_trains_in_its_own(home: Workspace) -> None:
    own = {"environment": {"python": sys.prefix}}
    projects.configure(home, NAME, changes=own, reason="its packages")
    with pytest.raises(ConfigurationError, match="which a rented machine does not have") as refused:
        rendered(home, "slurm", home.path.parent / "job")
    assert "changes={'environment': null}" in refused.value.remedy
    projects.configure(home, NAME, changes={"environment": None}, reason="trains elsewhere")
    texts = rendered(home, "slurm", home.path.parent / "job")
    assert texts["requirements.txt"].startswith("trainwright[train]==")


def test_a_machine_that_keeps_nothing_is_not_said_to_resume(left_alone: Workspace, tmp_path: Path) -> None:
    request = {"platform": "skypilot", "gpu": "L4", "spot": False}
    kept = rendered(left_alone, folder=tmp_path / "kept", **request)["README.md"]
    folder = tmp_path / "bare"
    bare = render_cloud(left_alone, read_cloud_request(project=NAME, platform="skypilot", gpu="L4"), folder)
    told = (folder / "README.md").read_text()
    assert "Nothing keeps the workspace" not in kept
    assert "the bits that an undisturbed run has" in kept
    assert "Nothing keeps the workspace" in told
    assert "the bits that an undisturbed run has" not in told
    assert any("name --bucket" in one for one in bare.warnings)
    assert "Each start ends after" in told, "a start after a notice has its hours anew"


def test_secrets_and_the_workspace_below_the_code_root_stay_here(tmp_path: Path) -> None:
    write_code(tmp_path / "code")
    workspace = Workspace.open(tmp_path / "code" / "records")
    projects.create_project(workspace, NAME, intent="tell irises apart", goal=GOAL, config={**CONFIG, "code_root": "."})
    text = rendered(workspace, "modal", tmp_path / "job")["modal_job.py"]
    left = ast.literal_eval(re.findall(r"^LEFT_OUT = (.*)$", text, flags=re.MULTILINE)[0])
    assert {"**/.env", "**/.env.*", "records", "**/.git"} <= set(left)
    workspace.close()


def test_a_copy_that_failed_is_told_and_never_passes_for_done(home: Workspace, tmp_path: Path) -> None:
    rendered(home, "slurm", tmp_path / "job")
    (tmp_path / "file").write_text("")
    (tmp_path / "there").mkdir()
    for code, expected in ((0, 74), (3, 3)):
        done = subprocess.run(
            ["bash", str(tmp_path / "job" / "entry.sh")],
            env={"PATH": "/usr/bin:/bin", "KEEP": str(tmp_path / "file" / "keep"), "WORKSPACE": str(tmp_path / "there"),
                 "TRAINWRIGHT_PROGRAM": stand_in(tmp_path, code)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == expected, done.stderr
        assert "the workspace was not kept" in done.stderr


def stand_in(folder: Path, code: int) -> str:
    path = folder / f"ends-with-{code}"
    path.write_text(f"#!/bin/sh\nexit {code}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "platform",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in {"lambda", "skypilot"} else [])
        for name in PLATFORMS
        if PROGRAMS[name]
    ],
)
def test_the_platforms_own_program_takes_the_file_and_refuses_a_broken_one(
    home: Workspace, tmp_path: Path, platform: str
) -> None:
    program, script, _ = PROGRAMS[platform][0]
    if companion(program) is None:
        pytest.skip(f"{program} is not installed in .venv/companions (make clouds)")
    texts = rendered(home, platform, home.path.parent / "job")
    file = FILES[platform]
    assert verdict(program, script, file, texts, tmp_path / "whole") == ""
    for name in sorted(CLUSTERS.get(platform, ())):
        kubernetes, further, _ = PROGRAMS["kubernetes"][0]
        assert verdict(kubernetes, further, name, texts, tmp_path / name) == ""
    broken = {
        "modal_job.py": ("timeout=", "time_out="),
        "skypilot.yaml": ("use_spot:", "use_sport:"),
        "kubernetes.yaml": ("backoffLimit:", "backofLimit:"),
        "trainjob.yaml": ("numNodes:", "numNode:"),
    }[file]
    assert broken[0] in texts[file]
    assert verdict(program, script, file, {**texts, file: texts[file].replace(*broken)}, tmp_path / "broken") != ""


@pytest.mark.slow
def test_the_command_writes_and_says_what_was_checked(home: Workspace) -> None:
    folder = home.path.parent / "job"
    command = [*trainwright_command(os.environ), "cloud", NAME, "--workspace", str(home.path)]
    done = subprocess.run(
        [*command, "--on", "slurm", "--gpu", "h100", "--into", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Nothing was started." in done.stdout
    assert "there is no sbatch" in done.stdout or "passed" in done.stdout
    again = subprocess.run(
        [*command, "--on", "slurm", "--gpu", "H1OO", "--into", str(folder / "b")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 1
    assert "Remedy: --gpu h100:1" in again.stderr
