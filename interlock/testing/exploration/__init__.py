"""Exhaustive exploration of the real protocol in a small world. Run it: `python -m interlock.testing.exploration`."""
