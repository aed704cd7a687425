"""Parameters that training leaves out: not held by an optimizer, without a gradient, or never changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.trainer.watch.inspector import Finding
from trainwright.trainer.watch.silent.record import StepRecord

PATIENCE = 3
"""Steps after which a parameter that was not called, or whose gradient was zero, counts as left out."""


def unheld_parameters(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """Parameters that the loss depends on and that no optimizer will ever move."""
    record = history[-1]
    names = record.unheld
    if names:
        words = f"{listed(names)} got a gradient, and no optimizer holds {'it' if len(names) == 1 else 'them'}"
        if not record.held:
            words += " nor any other parameter of this model: the optimizer is another model's, or a copy's"
        yield Finding("optimizer_without_parameters", record.share(names), tuple(sorted(names)), detail=words)


def frozen_parameters(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """Parameters that an optimizer holds and that do not learn; a loss that no operation leads to is another error."""
    losses = history[-1].losses
    if losses and not any(loss.is_connected for loss in losses):
        return
    if (words := _no_update(history)) is not None:
        yield Finding("frozen_parameters", 1.0, tuple(sorted(history[-1].held)), detail=words)
        return
    for names, why in (
        (_without_gradient(history[-1]), "got no gradient although their modules ran: the graph is cut behind them"),
        (_behind_flat(history[-1]), f"got gradients of zero, for the derivative of {_flat(history[-1])} is zero"),
        (_never_called(history), f"got no gradient in {PATIENCE} steps: their modules are not used"),
        (_all_zero(history), f"got gradients of zero in {PATIENCE} steps"),
        (_always(history, "unchanged"), f"got gradients, and no bit of them changed in {PATIENCE} steps"),
    ):
        if names:
            share = history[-1].share(names)
            yield Finding("frozen_parameters", share, tuple(sorted(names)), detail=f"{listed(names)} {why}")
            return


def _without_gradient(record: StepRecord) -> set[str]:
    """Return held parameters of modules that ran, which had no gradient at any update of the step."""
    missing = _in_all(record, "missing")
    return {name for name in missing if _owner(name) in record.calls.called and name in record.trainable}


def _never_called(history: Sequence[StepRecord]) -> set[str]:
    """Return held parameters without a gradient whose modules ran in no step; not those of one expert of several."""
    recent = history[-PATIENCE:]
    if len(recent) < PATIENCE or not all(record.updates for record in recent):
        return set()
    missing = set.intersection(*(_in_all(record, "missing") for record in recent))
    called = set.union(*(record.calls.called for record in recent))
    return {name for name in missing if _owner(name) not in called and not _has_sibling(name, called, called)}


def _always(history: Sequence[StepRecord], kind: str) -> set[str]:
    """Return parameters that were `zero` or `unchanged` in all steps, where a whole module of them is.

    Not before an update has moved something: what starts at zero, such as the second matrix of LoRA or the gate of a
    residual branch, keeps the gradients behind it at zero until then.
    """
    recent = history[-PATIENCE:]
    moved = [bool(_moved(record)) for record in history[:-1]]
    if len(recent) < PATIENCE or not all(record.updates for record in recent) or not any(moved):
        return set()
    return _whole(recent[-1], set.intersection(*(_in_all(record, kind) for record in recent)))


def _all_zero(history: Sequence[StepRecord]) -> set[str]:
    """Return parameters whose gradients were zero in all steps; not those of one expert of several, of weight 0.

    In a stack of layers those before one without a derivative are at zero as well, so an expert is what a list has
    behind one that learns.
    """
    learning = {_owner(name) for record in history[-PATIENCE:] for name in _moved(record)}
    called = set.union(set(), *(record.calls.called for record in history[-PATIENCE:]))
    return {name for name in _always(history, "zero") if not _has_sibling(name, called, learning, before=True)}


def _whole(record: StepRecord, names: set[str]) -> set[str]:
    """Return those of the parameters whose modules have no other one that is not among them."""
    held = record.held & set(record.trainable)
    partly = {_owner(name) for name in held - names if record.trainable[name] > 1}
    return {name for name in names if _owner(name) not in partly}


def _behind_flat(record: StepRecord) -> set[str]:
    """Return parameters with gradients of zero where the loss depends on them through a function of steps."""
    return _whole(record, _in_all(record, "zero")) if _flat(record) is not None else set()


def _flat(record: StepRecord) -> str | None:
    return next((loss.flat for loss in record.losses if loss.flat is not None), None)


def _no_update(history: Sequence[StepRecord]) -> str | None:
    """Say in words how gradients are computed and thrown away."""
    recent, last = history[-2:], history[-1]
    if last.sees_functions and any(record.dropped for record in recent) and not any(r.updates for r in history):
        return "gradients were cleared before any optimizer had used them"
    if last.updates and last.backwards and all(u.missing >= u.parameters and u.has_arrived for u in last.updates):
        return "gradients were cleared between the backward pass and the optimizer's step"
    if last.updates and last.held and all(update.missing >= last.held for update in last.updates):
        return "no parameter had a gradient when the optimizer was stepped"
    if last.updates and last.backwards and all(u.applied == 0 and u.has_arrived for u in last.updates):
        return "gradients were set to zero between the backward pass and the optimizer's step"
    return None


def _in_all(record: StepRecord, kind: str) -> set[str]:
    """Return the parameters that an attribute of every update of the step names which holds them."""
    named: dict[str, list[bool]] = {}
    for update in record.updates:
        for name in getattr(update, kind):
            named.setdefault(name, []).append(True)
    once = {name for name, seen in named.items() if len(seen) >= sum(name in u.parameters for u in record.updates)}
    return once & set(record.trainable)


def _moved(record: StepRecord) -> set[str]:
    moved: set[str] = set()
    for update in record.updates:
        moved |= update.parameters - update.missing - update.zero - update.unchanged if update.rate > 0 else set()
    return moved


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _has_sibling(name: str, called: set[str], among: set[str], *, before: bool = False) -> bool:
    """Whether the parameter is of a list's module, such as an expert, of which others (before it) are among these."""
    parts = name.split(".")
    for place, part in enumerate(parts):
        parent = ".".join(parts[:place])
        if part.isdigit() and parent not in called:  # a list of modules is never called; a sequence is
            inner = parts[place + 1 : -1]
            others = {each[place] for each in map(_split, among) if _split(parent) == each[:place] and
                      each[place + 1 :] == inner and len(each) > place}  # fmt: skip
            if any(other != part and (not before or int(other) < int(part)) for other in others):
                return True
    return False


def _split(name: str) -> list[str]:
    return name.split(".") if name else []


def listed(names: set[str], most: int = 3) -> str:
    """Return the first names in words."""
    ordered = sorted(names)
    return ", ".join(ordered[:most]) + (f" and {len(ordered) - most} more" if len(ordered) > most else "")
