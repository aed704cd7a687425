"""Arguments of the built-in parts: one closed section a part, free of torch, so that `configure` can check it.

The builders take what these sections say; a test holds each section to its builder's signature.
"""
