"""The journal on SQLite: one file, many processes."""
