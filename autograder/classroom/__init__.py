"""A class of students: nbgrader's pipeline made safe, and grading many submissions."""
