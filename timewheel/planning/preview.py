"""What a schedule will do, and why: its next slots, and what it will leave out.

Pure: no asyncio, clock, randomness, files or sockets.
"""

from __future__ import annotations
