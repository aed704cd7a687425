"""Data of a project: validated on request, in a process of its own."""

from trainwright.tools.data.requests import ValidationRequest, request_validation
from trainwright.tools.data.validating import ValidationAnswer, look_at
