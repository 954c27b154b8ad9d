"""Moments as Kubernetes writes them, and as the program counts them: in seconds since the epoch."""

from datetime import UTC, datetime


def format_moment(seconds: float) -> str:
    """``2026-01-31T09:00:00Z``; fractions of a second are dropped."""
    return f"{datetime.fromtimestamp(int(seconds), UTC).isoformat()[:19]}Z"  # strftime takes ten times as long


def parse_moment(text: str | None) -> float | None:
    """Seconds since the epoch; None where there is no moment, or one that cannot be read. Without a zone it is UTC."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
