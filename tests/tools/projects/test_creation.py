"""Making and configuring projects: what is refused, with value, rule and remedy, and that nothing half-done stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwright.server.argument_repair import normalized_arguments
from trainwright.server.surface import TOOLS
from trainwright.tools import projects
from trainwright.tools.ledger import entries
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config
from trainwright.trainer.base.errors import ApprovalNeededError, ConfigurationError, ConflictError, NotFoundError
from trainwright.trainer.config.goal import corrected_goal, goal_problem

GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
CONFIG = {"model": {"use": "mlp"}, "data": {"use": "iris"}}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path / "workspace")
    yield opened
    opened.close()


def create(workspace: Workspace, name: str = "one", **changes: Any) -> projects.ProjectStatus:
    return projects.create_project(workspace, name, **{"intent": "", "goal": GOAL, "config": CONFIG} | changes)


@pytest.mark.requirement("PHASE-2", "CONF-2")
def test_a_project_begins_in_planning_with_the_template_and_its_goal(workspace: Workspace) -> None:
    status = create(workspace)
    assert status.phase == "planning"
    with workspace.session() as session:
        version = entries(session, "one", "config_version")[0][1]
    assert version["values"]["selection"] == {"metric": "accuracy", "direction": "maximize"}
    assert version["values"]["metrics"] == ["accuracy"]
    assert version["values"]["training"]["epochs"] == 20
    failed = [check for check in status.shown()["checks"] if check["status"] == "failed"]
    assert [check["id"] for check in failed] == ["planning.smoke_run_passed"]
    further = sum(one.status == "failed" for one in status.checks) - 1
    assert status.remarks == [f"Not measured yet: {further} further checks, which the smoke run answers too."]


TASKS = {"digit": {"outputs": 10, "metrics": ["accuracy"]}, "rest": {"loss": "mse", "outputs": 2}}


@pytest.mark.requirement("CONF-1", "PHASE-2")
@pytest.mark.parametrize(
    ("metric", "objective"),
    [
        ("robust_accuracy", {"name": "adversarial", "epsilon": 0.1}),
        ("linear_probe_accuracy", {"name": "contrastive"}),
        ("digit_accuracy", {"name": "multi_task", "tasks": TASKS}),
    ],
)
def test_the_goal_may_be_what_the_objective_measures(
    workspace: Workspace, metric: str, objective: dict[str, Any]
) -> None:
    create(workspace, goal=GOAL | {"metric": metric}, config=CONFIG | {"objective": objective})
    with workspace.session() as session:
        version = entries(session, "one", "config_version")[0][1]
    assert version["values"]["selection"] == {"metric": metric, "direction": "maximize"}
    assert not version["values"].get("metrics")


@pytest.mark.requirement("CONF-1", "PIPE-2")
@pytest.mark.parametrize("more", [{}, {"text": "body"}])
def test_a_target_that_is_named_twice_is_refused_and_arrays_have_targets(
    workspace: Workspace, more: dict[str, str]
) -> None:
    data = {"use": "csv", "args": {"path": "t.csv", "target": ["billing", "billing"], **more}}
    with pytest.raises(ConfigurationError, match="'billing' is named twice") as refused:
        create(workspace, config={**CONFIG, "data": data})
    assert "amend" not in refused.value.details
    arrays = {"use": "npz", "args": {"path": "t.npz", "target": "billing"}}
    with pytest.raises(ConfigurationError, match=r"did you mean `data.args.targets`") as renamed:
        create(workspace, config={**CONFIG, "data": arrays})
    assert renamed.value.details["amend"]["config"]["data"]["args"] == {"path": "t.npz", "targets": "billing"}


@pytest.mark.requirement("CONF-1", "PHASE-2")
def test_a_goal_in_a_metric_of_no_task_is_answered_by_those_that_the_tasks_measure(workspace: Workspace) -> None:
    config = CONFIG | {"objective": {"name": "multi_task", "tasks": TASKS}}
    with pytest.raises(ConfigurationError, match="measures each task's own: digit_accuracy") as refused:
        create(workspace, goal=GOAL, config=config)
    create(workspace, **{"config": config, **refused.value.details["amend"]})


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "../evil"}, "not a valid name"),
        ({"name": "Übung"}, "not a valid name"),
        ({"name": ""}, "not a valid name"),
        ({"goal": {"metric": "accuracy"}}, "not complete"),
        ({"goal": GOAL | {"target": float("nan")}}, "not complete"),
        ({"goal": GOAL | {"direction": "sideways"}}, "not complete"),
        ({"template": "best"}, "no template 'best'"),
        ({"config": {"model": {"use": "mlp"}}}, "give `model` and `data`"),
        ({"config": CONFIG | {"optimzer": {"lr": 1}}}, "did you mean `optimizer`"),
        ({"config": CONFIG | {"code_root": "missing"}}, "not a folder"),
        ({"goal": GOAL | {"metric": "top 5\n# Injected"}}, "not the name of a metric"),
        ({"goal": GOAL | {"metric": "m" * 65}}, "not the name of a metric"),
        ({"goal": GOAL | {"target": 95}}, "lies in 0 to 1"),
        ({"goal": GOAL | {"metric": "test/accuracy"}}, "judged on validation rows"),
        ({"goal": {"metric": "f1", "direction": "minimize", "target": 0.2}}, "more is better"),
        ({"intent": "read\x1b[2J digits"}, "control character"),
        ({"intent": "x" * 2001}, "has 2001 characters"),
        ({"limits": {"trails": 3}}, "unknown limit `trails` Near: trials"),
        ({"limits": {"trials": -1}}, "`trials` = -1"),
        ({"limits": {"trials": True}}, "`trials` = True"),
        ({"limits": {"trials": "five"}}, "`trials` = 'five'"),
        ({"limits": {"run_wall_clock_seconds": "an hour"}}, "`run_wall_clock_seconds` = 'an hour'"),
    ],
)
def test_a_bad_project_is_refused_and_leaves_nothing(workspace: Workspace, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        create(workspace, **changes)
    assert caught.value.remedy
    assert projects.project_status(workspace) == []
    assert list((workspace.path / "projects").iterdir()) == []


@pytest.mark.requirement("CONF-1", "GATE-2")
def test_a_metric_of_ones_own_keeps_its_name_where_a_built_in_one_is_called_so(workspace: Workspace) -> None:
    (workspace.path.parent / "finder.py").write_text("def iou(outputs, targets):\n    return 0.5\n")
    goal = {"metric": "iou", "direction": "maximize", "target": 0.5}
    own = CONFIG | {"metrics": ["finder.py:iou"]}
    status = create(workspace, goal=goal, config=own)
    assert status.goal == "validation iou >= 0.5"
    with workspace.session() as session:
        assert latest_config(session, "one").values["selection"]["metric"] == "iou"
    model = next(tool for tool in TOOLS if tool.name == "create_project").fn_metadata.arg_model
    given = {"name": "one", "intent": "find", "goal": goal, "config": own}
    assert normalized_arguments(model, given)[0]["goal"]["metric"] == "iou"
    assert normalized_arguments(model, given | {"config": CONFIG})[0]["goal"]["metric"] == "foreground_iou"


@pytest.mark.requirement("TRAIN-1", "GATE-7")
@pytest.mark.parametrize(
    ("use", "says"),
    [
        ("trainer", "what Seq2SeqTrainer(…) returned when the file was imported"),
        ("SIZES", "SIZES is a value, and a function is called here"),
        ("make", ""),
        ("partly", ""),
    ],
)
def test_a_value_where_a_function_belongs_is_refused_at_creation(workspace: Workspace, use: str, says: str) -> None:
    code = "from functools import partial\nSIZES = [3]\ndef make(): ...\npartly = partial(make)\n"
    (workspace.path.parent / "train.py").write_text(f"{code}trainer = Seq2SeqTrainer(model=None)\n")
    values = {"trainer": {"use": f"train.py:{use}"}, "metrics": []}
    if not says:
        for number, metric in enumerate(("loss", "f1_binary")):
            goal = {"metric": metric, "direction": "minimize" if metric == "loss" else "maximize", "target": 0.1}
            remarks = create(workspace, f"p{number}", config=values, goal=goal).remarks
            told = [one for one in remarks if "where the trainer's compute_metrics returns it" in one]
            assert [one.split()[0] for one in told] == (["f1_binary"] if metric != "loss" else [])
        return
    with pytest.raises(ConfigurationError) as caught:
        create(workspace, config=values)
    assert says in caught.value.message
    assert f"name make_{use}" in caught.value.remedy


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize(
    ("metric", "direction", "meant"),
    [
        ("acuracy", "maximize", "accuracy"),
        ("matthews_corelation", "maximize", "matthews_correlation"),
        *((metric, "minimize", None) for metric in ("crps", "pinball", "dice_loss", "neg_log_loss")),
        *((metric, "maximize", None) for metric in ("top_2_accuracy", "top_10_accuracy", "per_class_accuracy")),
    ],
)
def test_a_metric_that_is_not_built_in_is_answered_by_a_misspelt_one_alone(
    workspace: Workspace, metric: str, direction: str, meant: str | None
) -> None:
    """A target for another metric, taken over, would say something else."""
    goal = {"metric": metric, "direction": direction, "target": 0.5}
    with pytest.raises(ConfigurationError, match="is not measured") as caught:
        create(workspace, goal=goal)
    assert caught.value.details == ({"amend": {"goal": goal | {"metric": meant}}} if meant else {})
    assert f"file.py:{metric}" in caught.value.remedy
    assert ("goal=" in caught.value.remedy) is (meant is not None)
    assert ("rmse" in caught.value.message) is (direction == "minimize")


@pytest.mark.requirement("CONF-1")
def test_a_goal_in_a_metric_that_the_loss_does_not_train_is_refused_with_the_loss_that_does(
    workspace: Workspace,
) -> None:
    goal = {"metric": "r2", "direction": "maximize", "target": 0.5}
    with pytest.raises(ConfigurationError, match="r2, which is for regression, and loss cross_entropy") as caught:
        create(workspace, goal=goal)
    assert caught.value.details["amend"]["config"]["loss"] == "mse"
    with pytest.raises(ConfigurationError, match="loss mse is for regression") as named:
        create(workspace, goal=GOAL, config=CONFIG | {"loss": "mse"})
    assert named.value.details == {}, "the user named both, and chooses"
    create(workspace, goal=goal, config=caught.value.details["amend"]["config"])


@pytest.mark.requirement("GATE-6")
@pytest.mark.parametrize(("metric", "use"), [("own", "net.py:own"), ("accuracy", "accuracy")])
def test_a_goal_in_a_function_of_ones_own_is_said_to_be_computed_apart_from_its_file_alone(
    workspace: Workspace, metric: str, use: str
) -> None:
    (workspace.path.parent / "net.py").write_text("def own(outputs, targets): return 0.5\n")
    config = CONFIG | {"metrics": [use], "code_root": str(workspace.path.parent)}
    answer = create(workspace, goal=GOAL | {"metric": metric}, config=config)
    assert any(one.startswith("own is your function: it is computed apart too") for one in answer.remarks) is (
        metric == "own"
    )


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("direction", [{}, {"direction": "minimize"}])
@pytest.mark.parametrize(
    ("said", "metric"),
    [("MAPE", "mape"), ("val_rmse", "rmse"), ("mean_squared_error", "mse"), ("medae", "median_absolute_error")],
)
def test_errors_of_numbers_are_known_by_their_names_elsewhere_and_are_to_fall(
    said: str, metric: str, direction: dict[str, str]
) -> None:
    goal, _ = corrected_goal({"metric": said, **direction, "target": 0.2})
    assert goal == {"metric": metric, "direction": "minimize", "target": 0.2}
    assert goal_problem({**goal, "direction": "maximize"}) is not None


@pytest.mark.requirement("CONF-1")
def test_the_remedy_is_a_call_on_what_exists(workspace: Workspace) -> None:
    """`configure` needs a project, and there is none yet."""
    with pytest.raises(ConfigurationError) as caught:
        create(workspace, config=CONFIG | {"optimzer": {"lr": 0.1}})
    assert caught.value.details["amend"] == {"config": CONFIG | {"optimizer": {"learning_rate": 0.1}}}
    assert "configure(" not in caught.value.remedy
    assert caught.value.message.endswith("`optimizer`?")
    with pytest.raises(ConfigurationError) as caught:
        create(workspace, limits={"trials": "many"})
    assert "http" not in caught.value.message


def test_the_newest_projects_are_listed_first(workspace: Workspace) -> None:
    for name in ("first", "second", "third"):
        create(workspace, name)
    listed = projects.project_status(workspace, most=2)
    assert isinstance(listed, list)
    assert [line.project for line in listed] == ["third", "second"]
    assert projects.count_projects(workspace) == 3


@pytest.mark.requirement("GATE-4")
def test_more_than_the_owner_allows_is_asked_for_and_not_had(workspace: Workspace) -> None:
    with pytest.raises(ApprovalNeededError, match="code_root /etc"):
        create(workspace, config=CONFIG | {"code_root": "/etc"})
    with pytest.raises(ApprovalNeededError, match="trials"):
        create(workspace, limits={"trials": 10_000})
    assert create(workspace, limits={"trials": 3}).limits["trials"] == "0 of 3, 3 left"


@pytest.mark.requirement("GATE-4")
def test_the_owner_lowers_a_limit_and_it_holds_from_the_next_call(workspace: Workspace) -> None:
    create(workspace)
    path = workspace.path / "settings.yaml"
    path.write_text(path.read_text().replace("trials: 200", "trials: 5"))
    status = projects.project_status(workspace.refreshed(), "one")
    assert isinstance(status, projects.ProjectStatus)
    assert status.limits["trials"] == "0 of 5, 5 left"


@pytest.mark.requirement("GATE-4")
def test_the_owner_raises_a_limit_and_projects_that_exist_have_it(workspace: Workspace) -> None:
    create(workspace, limits={"runs_at_once": 1})
    path = workspace.path / "settings.yaml"
    path.write_text(
        path.read_text().replace("trials: 200", "trials: 300").replace("runs_at_once: 2", "runs_at_once: 3")
    )
    status = projects.project_status(workspace.refreshed(), "one")
    assert isinstance(status, projects.ProjectStatus)
    assert status.limits["trials"] == "0 of 300, 300 left"
    assert status.limits["runs_at_once"] == "0 of 1, 1 left", "a project's lower limit stays"


@pytest.mark.requirement("GATE-4")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("limits: {trials: many}", "`limits.trials` = 'many': "),
        ("limits: {trails: 3}", "unknown key `limits.trails`; did you mean `trials`?"),
        ("aprovals: []", "unknown key `aprovals`; did you mean `approvals`?"),
        ("approvals: [termnal]", "`approvals.0` = 'termnal': "),
    ],
)
def test_a_broken_settings_file_is_an_error_for_the_owner_not_a_default(
    workspace: Workspace, text: str, told: str
) -> None:
    (workspace.path / "settings.yaml").write_text(f"{text}\n")
    with pytest.raises(ConfigurationError, match="owner's settings.yaml is not valid") as caught:
        workspace.refreshed()
    assert told in caught.value.message


def test_a_second_project_of_the_same_name_is_refused(workspace: Workspace) -> None:
    create(workspace)
    with pytest.raises(ConflictError, match="already"):
        create(workspace)


def test_an_unknown_project_is_an_error_with_the_nearest_name(workspace: Workspace) -> None:
    create(workspace, "flowers")
    with pytest.raises(NotFoundError) as caught:
        projects.project_status(workspace, "flower")
    assert "flowers" in caught.value.remedy


@pytest.mark.requirement("CONF-1", "CONF-5")
def test_versions_are_kept_and_a_bad_change_changes_nothing(workspace: Workspace) -> None:
    create(workspace)
    answer = projects.configure(workspace, "one", changes={"optimizer.learning_rate": 0.1}, reason="faster")
    assert answer.version == 2
    assert answer.changed == {"optimizer.learning_rate": [0.001, 0.1]}
    with pytest.raises(ConfigurationError, match=r"optimizer\.learning_rate"):
        projects.configure(workspace, "one", changes={"optimizer.learning_rat": 1})
    same = projects.configure(workspace, "one", changes={"optimizer.learning_rate": 0.1})
    assert (same.version, same.changed) == (2, {})
    bound = {"evaluation_gate.minimum": {"accuracy": 0.5}}
    begun = projects.configure(workspace, "one", changes=bound).changed
    assert [new for _, new in begun.values() if new is None] == [], "of what has no value nothing changed"
    assert projects.configure(workspace, "one", changes={"training.gradient_checkpointing": {}}).version == 4


def test_a_search_that_begins_is_told_by_what_was_chosen_of_it(workspace: Workspace) -> None:
    create(workspace)
    search = {
        "trials": 4,
        "space": {"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 0.1, "log": True}},
    }
    told = projects.configure(workspace, "one", changes={"search": search}).changed
    rate = "search.space.optimizer.learning_rate"
    assert told == {
        f"{rate}.high": [None, 0.1], f"{rate}.log": [None, True], f"{rate}.low": [None, 1e-4],
        f"{rate}.type": [None, "float"], "search.trials": [None, 4],
    }  # fmt: skip
    averaged = projects.configure(workspace, "one", changes={"weight_averaging": {"name": "ema"}}).changed
    assert averaged["weight_averaging.name"] == [None, "ema"], "what was named is told, though it is the default"
    assert len(averaged) == 1


@pytest.mark.requirement("CONF-4")
def test_another_template_keeps_the_work_and_changes_how_it_is_trained(workspace: Workspace) -> None:
    create(workspace)
    answer = projects.configure(workspace, "one", changes={}, template="production")
    assert answer.changed["training.epochs"][1] >= 100
    assert not any(key.startswith(("model", "data", "selection")) for key in answer.changed)


@pytest.mark.requirement("ARCH-1", "PHASE-2")
@pytest.mark.parametrize(
    ("intent", "is_other"),
    [
        ("ROC AUC at least 0.85", True),
        ("top-5 accuracy of 0.85", True),
        ("accuracy of 85 %", False),
        ("which one?", False),
    ],
)
def test_a_project_in_another_metric_than_its_intent_says_so(workspace: Workspace, intent: str, is_other: bool) -> None:
    remarks = create(workspace, intent=intent).remarks
    assert any("another metric" in one for one in remarks) is is_other


@pytest.mark.requirement("PHASE-2", "CONF-3")
def test_before_a_result_counts_a_goal_changes_in_any_way_and_selection_follows(workspace: Workspace) -> None:
    create(workspace)
    answer = projects.configure(workspace, "one", changes={"goal": {"metric": "auc", "target": 0.85}})
    assert answer.changed["goal"][1] == {"metric": "auc", "direction": "maximize", "target": 0.85}
    with workspace.session() as session:
        values = latest_config(session, "one").values
    assert values["selection"] == {"metric": "auc", "direction": "maximize"}
    assert "auc" in values["metrics"]
    lower = projects.configure(workspace, "one", changes={"goal.target": 0.8, "seed": 3})
    assert set(lower.changed) == {"goal", "seed"}
    status = projects.project_status(workspace, "one")
    assert isinstance(status, projects.ProjectStatus)
    assert status.goal == "validation auc >= 0.8"
    with pytest.raises(ConfigurationError, match="cannot be meant"):
        projects.configure(workspace, "one", changes={"goal.target": 1.5})
    assert not verify_workspace(workspace.path).problems
