"""A device made of arithmetic: its queue and its clock live in the judge, so honest timing can be marked exactly."""

from __future__ import annotations

LAUNCH_SECONDS = 2e-5  # what the host spends to enqueue one piece of work


class VirtualDevice:
    """An asynchronous device. `enqueue` adds work, `sync` waits for all of it, `clock` only reads.

    Reading the clock never waits: work still in the queue has not happened yet as far as the clock can tell.
    All times are seconds.
    """

    def __init__(self, start: float = 0.0) -> None:
        self.now = start
        self._idle_from = start

    def enqueue(self, seconds: float) -> None:
        """Put `seconds` of work behind everything already queued; the host goes on after the launch."""
        self.now += LAUNCH_SECONDS
        self._idle_from = max(self._idle_from, self.now) + seconds

    def sync(self) -> None:
        """Wait until the queue is empty."""
        self.now = max(self.now, self._idle_from)

    def clock(self) -> float:
        """Seconds now, whatever is still queued."""
        return self.now

    @property
    def pending(self) -> float:
        """Seconds of work that have been enqueued and not waited for."""
        return max(0.0, self._idle_from - self.now)
