"""Integrations of a released model: a service, a form, a database and clients, generated from its own signature."""

from trainwright.tools.integrations.final_model import is_model, is_signed
from trainwright.tools.integrations.signature import Signature, read_signature
from trainwright.tools.integrations.writing import PARTS, deploy
