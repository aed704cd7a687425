"""How many trials a GPU and the cores hold, by figures; what a share costs of the owner's limits."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.tools.hyperparameter_tuner.room_notes import MAX_BY_ITSELF, core_notes, per_gpu, require_memory
from trainwright.tools.launchers.environment import Gpu, worker_environment
from trainwright.tools.limits.reservation import expected_gpus
from trainwright.tools.workspace.settings import ListedGpu, Settings
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import SearchSection, TrainingConfig, apply_changes, config_digest, parse_config
from trainwright.trainer.run import RunKind

GIB = 1024**3
SPACE = {"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1.0}}


def config(**changes: Any) -> TrainingConfig:
    values = {"model": {"use": "mlp"}, "data": {"use": "iris"}}
    return parse_config(apply_changes(values, {key.replace("__", "."): value for key, value in changes.items()}))


@pytest.mark.requirement("TUNE-3")
@pytest.mark.parametrize(
    ("asked", "peak", "memory", "expected"),
    [
        (1, 70 * GIB, 80 * GIB, 1),
        (3, None, 0, 3),
        ("auto", None, 80 * GIB, 1),
        ("auto", 10 * GIB, 0, 1),
        ("auto", 10 * GIB, 80 * GIB, 5),
        ("auto", 70 * GIB, 80 * GIB, 1),
        ("auto", 1, 80 * GIB, MAX_BY_ITSELF),
    ],
)
def test_trials_share_a_gpu_as_asked_or_as_the_baselines_memory_lets(
    asked: Any, peak: int | None, memory: int, expected: int
) -> None:
    assert per_gpu(asked, peak, memory) == expected


@pytest.mark.requirement("TUNE-3")
def test_more_trials_than_fit_on_a_gpu_are_refused_with_the_figures_and_the_search_put_right() -> None:
    search = SearchSection.model_validate({"space": SPACE, "trials_per_gpu": 6})
    with pytest.raises(
        ConfigurationError, match=r"6 trials of 13\.2 GiB .*10\.0 GiB.*95% of a GPU's 80\.0 GiB"
    ) as raised:
        require_memory(search, 6, 10 * GIB, 80 * GIB)
    assert raised.value.details["amend"]["search"]["trials_per_gpu"] == 5
    require_memory(search, 5, 10 * GIB, 80 * GIB)
    require_memory(search, 6, None, 80 * GIB)


@pytest.mark.requirement("TUNE-3")
def test_a_width_beyond_the_cores_is_said_with_figures_and_the_width_that_fits() -> None:
    assert core_notes(4, config(), cores=4) == []
    [note] = core_notes(4, config(reproducibility__threads=2, loader__num_workers=1), cores=8)
    assert note.startswith("width 4 x 3 = 12 busy processes and threads (2 threads and 1 loader workers each)")
    assert note.endswith("8 cores: the trials slow each other down; width 2 fits")


@pytest.mark.requirement("TUNE-3")
def test_where_trials_run_is_no_part_of_them() -> None:
    one, two = ({"space": SPACE, "trials_per_gpu": number} for number in (1, "auto"))
    assert SearchSection.model_validate(one).is_answered_by(two)
    assert config_digest(config(search=one)) == config_digest(config(search=two))
    given = worker_environment(config(), gpus=[Gpu(id="GPU-a"), Gpu(id="MIG-b")])
    assert given["CUDA_VISIBLE_DEVICES"] == "GPU-a,MIG-b"
    assert given | {"CUDA_VISIBLE_DEVICES": ""} == worker_environment(config()) | {"CUDA_VISIBLE_DEVICES": ""}
    assert worker_environment(config(), hides_gpus=True)["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.requirement("GATE-4")
def test_the_owners_gpus_are_reserved_for_whole() -> None:
    listed, none = Settings(gpus=[ListedGpu(id="0")]), Settings(gpus=[])
    assert expected_gpus(config(), RunKind.TRIAL, listed) == 1
    assert expected_gpus(config(), RunKind.TRIAL, none) == 0
    assert expected_gpus(config(training__device="cuda"), RunKind.TRIAL, none) == 0, "its worker is shown none"
    assert expected_gpus(config(training__device="cpu"), RunKind.TRIAL, listed) == 0
