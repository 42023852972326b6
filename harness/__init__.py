"""The crash harness: provider stand-ins, killed workers, scenarios and the audit; not shipped in the wheel."""
