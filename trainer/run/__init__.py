"""The run directory: the only channel between a worker and its observers. Free of torch."""

from trainwright.trainer.run.directory import RunDirectory, write_atomically, write_generated, write_report
from trainwright.trainer.run.key import RunKey
from trainwright.trainer.run.metrics import MetricStore
from trainwright.trainer.run.specification import Goal, Limits, RunKind, RunSpecification
from trainwright.trainer.run.status import RUNG, Event, Failure, ProcessIdentity, RunState, RunStatus
