"""Watch inside the worker: looks into a few steps, reports findings, and evaluates the documents' conditions."""
