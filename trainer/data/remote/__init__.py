"""Data that lie elsewhere: remote files and databases, fetched whole into the cache, and their credentials."""
