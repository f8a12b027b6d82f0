"""Code that a run's settings name: the page is about runs that may come from anywhere, and runs none of it."""

from fedteddi.errors import InputError
from fedteddi.settings import Settings


def refuse_own_code(settings: Settings, *keys: str) -> None:
    """Refuse to go on where one of these keys names a file's or a module's part."""
    given = settings.model_dump()
    for key in keys:
        value = given
        for part in key.split("."):
            value = value[part]
        if ":" in str(value):
            raise InputError(f"{key} is code of its own ({value}), which a page about runs does not run")
