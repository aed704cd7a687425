"""Built-in data sources. Each returns `Loaded`, samples not yet split, or `Splits` where splitting comes first."""
