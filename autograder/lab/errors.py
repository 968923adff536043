"""The one exception this room raises for people."""


class LabError(RuntimeError):
    """One sentence for the person who reads it: what went wrong and what to do."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in a notebook: the sentence."""
        return [str(self)]
