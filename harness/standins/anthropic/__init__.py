"""A local stand-in for Anthropic's Messages API, with a scripted model: `python -m harness.standins.anthropic`."""
