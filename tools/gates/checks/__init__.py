"""The checks, one file a phase. Importing this package registers them all."""

from trainwright.tools.gates.checks import (
    baseline,
    diagnostics,
    evaluation,
    finalization,
    independent,
    optimization,
    planned,
    planning,
    validation,
)
