"""The course as a whole: what `release/` is, what must always be true, how far somebody has come."""
