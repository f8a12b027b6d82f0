"""Settings as TOML text: read, and written in full."""

import re
import tomllib

import tomli_w

from fedteddi.errors import InputError
from fedteddi.settings.experiment import Settings, parse_settings

# Numbers that tomli-w gives a line each; it escapes the line ends in texts.
LONG_LIST = re.compile(r"\[\n(?: *[-+.\w]+,\n)+ *\]")


def read_settings(text: str, where: str) -> Settings:
    """Read settings from TOML text."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{where} is not valid TOML ({error})") from None
    try:
        return parse_settings(data)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def write_settings(settings: Settings) -> str:
    """Write complete settings as TOML; reading them gives the same settings."""
    try:
        text = tomli_w.dumps(settings.model_dump(exclude_none=True))
    except TypeError as error:
        raise InputError(
            f"the settings cannot be written ({error}): give plain numbers, texts and lists"
        ) from None
    return LONG_LIST.sub(
        lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(", ]", "]"), text
    )
