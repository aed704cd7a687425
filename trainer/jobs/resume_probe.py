"""Resume probe of a smoke run: a fresh process resumes its last checkpoint, and must go on as the run itself does.

State that a step keeps outside what is saved (a module's variable, an attribute, a generator of one's own) would else
show after a complete replay. Only runs of the user's code are probed; of built-in parts the tests show it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import UserCodeError
from trainwright.trainer.checkpoints.index import checkpoint_name
from trainwright.trainer.checkpoints.store import DirectoryStore, newest_whole
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.own_samples import notes_on_draws
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.engine.observers.commitments import state_digest
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs import data_probe
from trainwright.trainer.jobs.fork import MAX_STATE_BYTES, Fork, Say, assembled_anew
from trainwright.trainer.jobs.probe.rates import endless
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.strategies import share

STEPS = 3
NOT_SAVED = (
    "What a step uses must be in the checkpoint: keep numbers and tensors of your own in context.state, or as a buffer "
    "of the model, and draw from torch, NumPy or random, whose states are saved. A module's variable or an "
    "attribute of an object is not saved."
)


def begin(run: RunDirectory, specification: RunSpecification, attempt: int) -> Fork | None:
    """Fork the process that will resume; None where the run is not probed. No user code may be imported yet."""
    config = specification.config
    is_probed = specification.kind is RunKind.SMOKE and attempt == 1 and config.training.compile is None
    if not is_probed or config.distributed.processes > 1:
        return None
    if config.trainer is not None:
        return Fork.of(lambda say: data_probe.made(run, specification, say))
    return Fork.of(lambda say: _resumed(run, specification, say)) if any(_entries(config)) else None


def _entries(config: TrainingConfig) -> Iterator[str]:
    """Yield what the configuration names of the user's code: everything that is used as `file:name`."""
    values: list[Any] = [config.model_dump(mode="json", exclude_unset=True)]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += [one for key, one in value.items() if key != "args"]
        elif isinstance(value, list):
            values += value
        elif isinstance(value, str) and ":" in value:
            yield value


def require_same(session: Session, fork: Fork, draws: dict[str, Any]) -> None:
    """Go on for some steps, and hold the fresh process to the same losses and state.

    Where training has settled averages into the weights, this process resumes too: what it keeps besides is still
    here, and not there; only what loading itself loses is not seen then.

    Args:
        session: that has trained.
        fork: the fresh process.
        draws: states of the generators at the end of training.

    Raises:
        UserCodeError: it trains on in another way; names the step and what differs.
        Abandoned: a stop was requested.
    """
    if session.work.framework is not None:
        data_probe.require_same(session, fork)
        return
    run, first = session.run, session.progress.step
    size = sum(path.stat().st_size for path in (run.checkpoints / checkpoint_name(first)).glob("*"))
    if not 0 < size <= MAX_STATE_BYTES:
        fork.end()
        return
    if session.weight_observers:
        _load(session)
    else:
        seeding.restore(draws)
    ours = _steps(session)
    theirs, _ = fork.answer(session.stop, run.limits().user_code_seconds)
    if theirs is None or "problem" in theirs:
        why = "it took too long or ended" if theirs is None else theirs["problem"]
        run.append_event("note", text=f"Whether the run resumes exactly was not compared: {why}")
        return
    what = _difference(ours, theirs, first)
    if what and not notes_on_draws({"train": session.work.splits.samples["train"]}):  # which say it of the data
        raise _other(what, first)
    run.append_event("resume_probe", from_step=first, steps=len(ours["losses"]), difference=what)


def _difference(ours: dict[str, Any], theirs: dict[str, Any], first: int) -> str | None:
    for number, (here, there) in enumerate(zip(ours["losses"], theirs["losses"], strict=False), first + 1):
        if here != there:
            return f"the loss of step {number} was {there}, and {here} in the run itself"
    return None if ours == theirs else f"weights or optimizer state after step {first + STEPS} were others"


def _other(what: str, step: int) -> UserCodeError:
    return UserCodeError(
        f"A resumed run would go on in another way: a fresh process loaded the checkpoint of step {step}, and {what}.",
        remedy=NOT_SAVED,
        document="configs/your_code.md",
        details={"step": step},
    )


def _load(session: Session) -> None:
    checkpoint, _ = newest_whole(DirectoryStore(session.run), config_digest=session.specification.config_digest)
    assert checkpoint is not None  # noqa: S101 - the worker has looked
    session.load(checkpoint)


def _steps(session: Session) -> dict[str, Any]:
    """Take some steps, recorded nowhere; return their losses, digits and all, and the digest of the state."""
    session.step_bound = None
    session.model.train()
    losses = [repr(float(take_step(session, group).loss)) for group in endless(session, STEPS)]
    return {"losses": losses, "state": state_digest(session)}


def _resumed(run: RunDirectory, specification: RunSpecification, say: Say) -> None:
    """Be the fresh process: assemble, load the newest checkpoint, take the steps, and answer."""
    try:
        session = assembled_anew(run, specification)
        determinism.apply_settings(specification.config.reproducibility, specification.exemptions)
        session.work.splits.samples.pop("test", None)
        share(session)
        _load(session)
        say(_steps(session))
    except BaseException as error:  # noqa: BLE001 - a resumed run of its own would tell
        say({"problem": f"{type(error).__name__}: {str(error)[:300]}"})
