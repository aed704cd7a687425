"""Provenance of the final model, as other tools read it: an in-toto statement."""

from trainwright.tools.provenance.attesting import Attested, attest
from trainwright.tools.provenance.envelope import Opened, open_envelope

__all__ = ["Attested", "Opened", "attest", "open_envelope"]
