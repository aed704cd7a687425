"""The training architect: from data, model, hardware, goal and limits to a complete configuration with reasons."""

from trainwright.tools.training_architect.answers import PlanAnswer
from trainwright.tools.training_architect.architect import open_questions, plan_training, require_fitting_metric
from trainwright.tools.training_architect.request import PlanRequest, read_request
