"""Provenance of the final model, as other tools read it: in-toto statement and RO-Crate."""

from trainwright.tools.provenance.attesting import Attested, attest
from trainwright.tools.provenance.envelope import Opened, open_envelope

__all__ = ["Attested", "Opened", "attest", "open_envelope"]
