"""Attacks on a journal by somebody who owns its database, with the database's own tools, and who catches them.

`python -m harness.attacks` does each of them on a real journal, on SQLite and on PostgreSQL, and prints the table.
"""
