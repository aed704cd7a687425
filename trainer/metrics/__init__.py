"""Metrics, computed once over all outputs of an epoch: an average of batch values would be another number.

Of a large epoch the outputs are folded into sums as they come, from which the same values follow.
"""

from trainwright.trainer.metrics.built_in import BUILT_IN, Metric, built_in_metric, built_in_of, near_metrics
from trainwright.trainer.metrics.evaluate import (
    evaluate,
    evaluate_loss,
    evaluate_sums,
    fold,
    problems,
    problems_of_sums,
    require_own_names,
    require_unmeasured,
)
