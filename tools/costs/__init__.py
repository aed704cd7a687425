"""Costs of a project's training, search, storage and inference, from measured hours and a dated file of prices."""

from trainwright.tools.costs.answer import CostAnswer
from trainwright.tools.costs.estimating import estimate_cost, write_price_file
from trainwright.tools.costs.pricing import CostRequest, read_cost_request
