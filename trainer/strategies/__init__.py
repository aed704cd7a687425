"""Several processes that train one run: their launch, their group, and how work and state are shared among them."""
