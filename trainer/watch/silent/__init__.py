"""Errors in user code that raise nothing: what a step does is recorded in passing, and checks read the record.

`record` wraps a step: `calls` sees modules, `functions` sees losses and backward passes, `updates` sees optimizers.
The `…_check` files are pure functions of these facts. Nothing draws a random number or changes a value.
"""
