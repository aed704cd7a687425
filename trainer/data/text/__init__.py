"""Text as samples: read, split before anything is measured on it, turned into tokens, cut into blocks."""
