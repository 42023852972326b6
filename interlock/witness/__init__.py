"""A witness of logs (c2sp.org/tlog-witness): cosigns a checkpoint that continues all that it has seen of that log, and no other.

It keeps one checkpoint a log, in a file of its own. What it is worth hangs on who runs it: on the log's own machine it shows
only that the log is not rewritten by mistake.
"""
