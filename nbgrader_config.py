"""nbgrader, made to grade by this course's judge. It is read by every nbgrader command run from this folder."""

from pathlib import Path

c = get_config()  # noqa: F821

try:
    from autograder.classroom.pipeline import configure
except (Exception, SystemExit) as error:  # nbgrader would go on with its own pipeline, and its marks would be wrong
    raise SystemExit(
        f"nbgrader was stopped: the course's package cannot be imported ({error}). "
        "Run `make setup` and use the nbgrader it installs."
    ) from None

configure(c)

root = Path(__file__).resolve().parent
c.CourseDirectory.root = str(root)
c.CourseDirectory.course_id = "making-generation-faster"
c.Exchange.assignment_dir = str(root / "work" / "class")

# How students' code is kept apart while it is judged:
# "sandbox" (classes), "node" (a sandbox with the machine to itself), "process" (code you trust).
c.Judge.tier = "sandbox"
