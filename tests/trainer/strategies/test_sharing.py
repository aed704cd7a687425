"""The rows of a batch among processes, the standard variables, and how a lost process is told from an own fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.order import Share
from trainwright.trainer.run import Failure
from trainwright.trainer.run.rank import Failures, Placement, is_lost_peer

WORK: dict[str, Any] = {"model": {"use": "mlp"}, "data": {"use": "iris"}}


@pytest.mark.requirement("TRAIN-6")
@pytest.mark.parametrize("processes", [1, 2, 3, 7])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 11, 64])
def test_every_row_belongs_to_exactly_one_process_and_shares_differ_by_one_row_at_most(
    processes: int, size: int
) -> None:
    shares = [Share(rank, processes) for rank in range(processes)]
    own = [list(range(size))[share.rows(size)] for share in shares if not share.is_spare(size)]
    assert [row for rows in own for row in rows] == list(range(size))
    assert max(map(len, own)) - min(map(len, own)) <= 1
    assert len(own) == min(size, processes)
    assert not shares[0].is_spare(size)
    assert all(list(range(size))[share.rows(size)] == list(range(size)) for share in shares if share.is_spare(size))


@pytest.mark.requirement("TRAIN-6")
def test_the_standard_variables_are_read_and_written() -> None:
    placement = Placement(3, 4, 1, 2, "store")
    assert Placement.of_environment(placement.as_environment()) == placement
    assert Placement.of_environment({"HOME": "/"}) is None
    outer = Placement.of_environment({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"})
    assert outer is not None
    assert (outer.store, outer.is_first) == (None, False)


@pytest.mark.requirement("TRAIN-6")
@pytest.mark.parametrize(
    "variables",
    [{"RANK": "one", "WORLD_SIZE": "2"}, {"RANK": "2", "WORLD_SIZE": "2"}, {"RANK": "-1", "WORLD_SIZE": "2"}],
)
def test_variables_that_make_no_group_are_refused(variables: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="RANK"):
        Placement.of_environment(variables)


@pytest.mark.requirement("TRAIN-6", "CONF-1")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"distributed": {"processes": 0}}, "distributed.processes"),
        ({"distributed": {"processes": 64}}, "set a batch_size of at least 64"),
        ({"distributed": {"backend": "nccl"}, "training": {"device": "cpu"}}, "set backend gloo or auto"),
        ({"distributed": {"process": 2}}, "did you mean `distributed.processes`"),
        ({"distributed": {"strategy": "horovod"}}, "distributed.strategy"),
        ({"distributed": {"timeout_seconds": 0}}, "distributed.timeout_seconds"),
    ],
)
def test_what_cannot_be_shared_is_refused_with_what_to_set(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse_config({**WORK, **changes})


@pytest.mark.requirement("TRAIN-6")
def test_a_lost_process_is_found_in_the_chain_of_causes() -> None:
    lost = RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1")
    wrapped = ConfigurationError("the step raised", remedy="")
    wrapped.__cause__ = lost
    assert is_lost_peer(lost)
    assert is_lost_peer(wrapped)
    assert not is_lost_peer(RuntimeError("size mismatch"))
    assert not is_lost_peer(ValueError("Connection closed by peer"))


@pytest.mark.requirement("TRAIN-6")
def test_the_lowest_rank_that_told_a_failure_is_heard_and_damage_is_passed_over(tmp_path: Path) -> None:
    failures = Failures(tmp_path)
    assert failures.first() is None
    for rank in (10, 2):
        failures.report(rank, Failure(category="data", message=str(rank), remedy=""))
    assert failures.first() == (2, Failure(category="data", message="2", remedy=""))
    (tmp_path / "ranks" / "failure-2.json").write_text("{")
    found = failures.first()
    assert found is not None
    assert found[0] == 10
    failures.clear(10)
    failures.clear(10)
    assert failures.first() is None
