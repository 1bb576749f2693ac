"""Reading: how a callback asks a question without standing on the event loop.

Dash runs callbacks on the loop that also serves the API, and queries are synchronous. So every callback is `async def`
and hands its query to a thread here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


async def in_thread(
    question: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """The answer of `question`, found in a thread; what it raises is raised here."""
    return await asyncio.to_thread(question, *args, **kwargs)
