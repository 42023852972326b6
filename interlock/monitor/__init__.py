"""A monitor of a log: holds the last checkpoint that it saw, and checks that the log only grew, and by legal steps alone.

It needs the log's public key and what the log publishes, and no right to write anywhere but in its own files. What it is worth
hangs on where it runs: what it holds must not be within reach of who could rewrite the log.
"""
