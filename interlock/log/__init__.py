"""The transparency log as a service: who signs the journal, when, and whose cosignatures are asked for."""

from interlock.log.config import LogConfig

__all__ = ["LogConfig"]
