"""Tables of numbers, categories, dates and texts as matrices of numbers: schema, encoding, and what serving does."""
