"""The course's figures: each function draws one and shows it with a description in words."""

from .bits import *  # noqa: F403
from .eight_bits import *  # noqa: F403
from .limits import *  # noqa: F403
from .memory import *  # noqa: F403
from .phases import *  # noqa: F403
from .prefixes import *  # noqa: F403
from .style import axes, course_style, show
from .timing import *  # noqa: F403

__all__ = ["axes", "course_style", "show"]
