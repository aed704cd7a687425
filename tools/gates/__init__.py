"""The gates: what each phase requires, computed from recorded evidence and decided in the ledger."""
