"""Settings as one table of keys and values."""

from typing import Any

from fedteddi.settings import Settings


def flattened(settings: Settings) -> dict[str, Any]:
    """Return settings as one table: `radio.deadline_s` and its value."""

    def flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in data.items():
            found |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
        return found

    return flat(settings.model_dump())
