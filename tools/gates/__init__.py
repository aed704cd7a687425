"""The gates: each phase's requirements, computed from recorded evidence and decided in the ledger."""
