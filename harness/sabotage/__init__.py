"""Small deliberate defects in the library, each of which the tests have to catch: `python -m harness.sabotage`."""
