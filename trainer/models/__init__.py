"""Built-in models. Sizes of input and output come from the data."""
