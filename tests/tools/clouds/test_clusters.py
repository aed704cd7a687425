"""Jobs on clusters: their volume, deadline, taints and shared memory, and what an hour there counts."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.tools.clouds.rendered_jobs import CLUSTERS, FILES, rendered

from trainwright.tools.workspace import Workspace

pytestmark = pytest.mark.requirement("COST-2")


@pytest.mark.parametrize("platform", ["kubernetes", "kubeflow"])
def test_a_row_of_the_cluster_counts_the_money_there(home: Workspace, platform: str) -> None:
    request = {"gpu": "NVIDIA-L4", "spot": False}
    before = rendered(home, platform, home.path.parent / "before", **request)["README.md"]
    assert "money is not counted" in before
    assert f"({platform}, L4)" in before, "which row it would be"
    (home.path / "prices.yaml").write_text(
        "columns: [platform, accelerator, price_per_hour, date, source, spot]\nrows:\n"
        "- [Modal, L4, 9.0, 2026-11-20, invented, false]\n- [Kubernetes, L4, 0.7, 2026-11-20, invented, false]\n"
    )
    texts = rendered(home, platform, home.path.parent / "after", **request)
    assert yaml.safe_load(texts["settings.yaml"])["price_per_gpu_hour"] == 0.7
    assert "money is not counted" not in texts["README.md"]


def test_a_clusters_job_ends_with_its_hours_and_keeps_its_logs_for_days(home: Workspace) -> None:
    texts = rendered(home, "kubernetes", home.path.parent / "job", hours=2)
    own = yaml.safe_load(texts["kubernetes.yaml"])["spec"]
    assert own["activeDeadlineSeconds"] == 7200, "of all its pods: the owner's cap holds for them together"
    assert own["ttlSecondsAfterFinished"] == 7 * 24 * 3600
    assert "7 days after its end the job is deleted with its logs" in texts["README.md"]
    flow = yaml.safe_load(rendered(home, "kubeflow", home.path.parent / "flow", hours=2)["trainjob.yaml"])["spec"]
    assert flow["activeDeadlineSeconds"] == 7200


def pod_of(platform: str, texts: dict[str, str]) -> dict[str, Any]:
    spec = yaml.safe_load(texts[FILES[platform]])["spec"]
    if platform == "kubernetes":
        return dict(spec["template"]["spec"])
    [node] = spec["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    return dict(node["template"]["spec"]["template"]["spec"])


@pytest.mark.parametrize("platform", sorted(CLUSTERS))
def test_a_pod_on_a_cluster_has_shared_memory_and_tolerates_the_taints_of_its_nodes(
    home: Workspace, platform: str
) -> None:
    plain = pod_of(platform, rendered(home, platform, home.path.parent / "plain", spot=False))
    gpu = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert plain["tolerations"] == [gpu]
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in plain["volumes"]
    assert {"name": "shm", "mountPath": "/dev/shm"} in plain["containers"][0]["volumeMounts"]
    gke = pod_of(platform, rendered(home, platform, home.path.parent / "gke", spot=True))
    assert gke["tolerations"] == [gpu, {**gpu, "key": "cloud.google.com/gke-spot"}]
    taint = "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"
    texts = rendered(home, platform, home.path.parent / "aks", spot=True, spot_taint=taint)
    aks = {"key": "kubernetes.azure.com/scalesetpriority", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}
    assert pod_of(platform, texts)["tolerations"] == [gpu, aks]
    assert yaml.safe_load(texts["copy.yaml"])["spec"]["tolerations"] == [gpu, aks]
    assert "EKS taints no spot nodes" in texts["README.md"]


@pytest.mark.parametrize("platform", sorted(CLUSTERS))
def test_a_clusters_volume_is_there_and_filled_before_the_job(home: Workspace, platform: str) -> None:
    texts = rendered(home, platform, home.path.parent / "job")
    kinds = {name: yaml.safe_load(texts[name])["kind"] for name in ("claim.yaml", "copy.yaml", FILES[platform])}
    assert list(kinds.values()) == [
        "PersistentVolumeClaim",
        "Pod",
        {"kubernetes": "Job", "kubeflow": "TrainJob"}[platform],
    ]
    claim, pod = (yaml.safe_load(texts[name]) for name in ("claim.yaml", "copy.yaml"))
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    said = texts["README.md"]
    places = [said.index(one) for one in (
        "apply -f claim.yaml -f copy.yaml", f"-n default wait --for=condition=Ready pod/{pod['metadata']['name']}",
        "tar -C ", "kubectl cp . ", "delete pod", f"apply -f {FILES[platform]}", "kubectl cp default/",
    )]  # fmt: skip
    assert places == sorted(places)
    assert "--exclude=.env " in said
