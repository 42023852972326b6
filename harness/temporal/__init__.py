"""A Temporal dev server of one's own."""
