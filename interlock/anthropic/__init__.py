"""The gate behind tools in a Messages API loop; needs the extra `anthropic`.

Importing this does not import the SDK, which takes seconds: a program that was restarted, and has nothing left to decide, never
does.
"""

from interlock.anthropic.agents import Agent, AsyncAgent
from interlock.anthropic.conversation import Asked, Conversation, End, Limits
from interlock.anthropic.tools import ActingTool, ApprovedAction, ReadingTool, ToolInput

__all__ = [
    "ActingTool",
    "Agent",
    "ApprovedAction",
    "Asked",
    "AsyncAgent",
    "Conversation",
    "End",
    "Limits",
    "ReadingTool",
    "ToolInput",
]
