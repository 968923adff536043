"""What the judge says of one exercise and of one notebook."""

from __future__ import annotations

from dataclasses import dataclass, field

OUTCOMES = ("full", "partial", "none", "untouched", "died", "timeout", "review")


@dataclass(frozen=True)
class RungResult:
    """One checked thing, with the points it is worth and whether they were earned."""

    name: str
    ok: bool
    points: float
    message: str = ""


@dataclass
class Verdict:
    """The judge's word on one exercise. `review` says why a person must look; `note` is for the learner."""

    name: str
    points: float
    max_points: float
    outcome: str
    rungs: list[RungResult] = field(default_factory=list)
    speed: dict | None = None
    seconds: float = 0.0
    review: str | None = None
    note: str | None = None
    tier: str = "process"

    @property
    def full(self) -> bool:
        return self.points >= self.max_points

    def to_json(self) -> dict:
        """The form of the command line's `exercises[]`."""
        return {
            "name": self.name,
            "points": self.points,
            "max_points": self.max_points,
            "outcome": self.outcome,
            "rungs": [{"name": r.name, "ok": r.ok, "points": r.points, "message": r.message} for r in self.rungs],
            "speed": self.speed,
            "seconds": round(self.seconds, 3),
            "review": self.review,
            "note": self.note,
        }

    @classmethod
    def from_json(cls, data: dict, tier: str) -> Verdict:
        """The inverse of `to_json`."""
        rungs = [RungResult(r["name"], r["ok"], r["points"], r["message"]) for r in data["rungs"]]
        return cls(**(data | {"rungs": rungs, "tier": tier}))


@dataclass
class Report:
    """All automatic marks of one notebook."""

    chapter: str
    tier: str
    verdicts: list[Verdict]

    @property
    def points(self) -> float:
        return sum(verdict.points for verdict in self.verdicts)

    @property
    def max_points(self) -> float:
        return sum(verdict.max_points for verdict in self.verdicts)

    def to_json(self) -> dict:
        """What `autograder check --json` prints."""
        return {
            "chapter": self.chapter,
            "points": self.points,
            "max_points": self.max_points,
            "tier": self.tier,
            "exercises": [verdict.to_json() for verdict in self.verdicts],
        }

    @classmethod
    def from_json(cls, data: dict) -> Report:
        """The inverse of `to_json`."""
        verdicts = [Verdict.from_json(item, data["tier"]) for item in data["exercises"]]
        return cls(data["chapter"], data["tier"], verdicts)
