"""What a key of the settings is made of: its default, what it means, its unit, and where the paper says it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Dbm = Annotated[float, Field(ge=-300, le=300)]
Count = Annotated[int, Field(ge=1)]


def _all_or_count(value: Any) -> Any:
    if value == "all" or (type(value) is int and value >= 1):
        return value
    raise ValueError('give "all", or how many: a whole number, at least 1')


AllOrCount = Annotated[Literal["all"] | Count, BeforeValidator(_all_or_count)]


class Section(BaseModel):
    """A part of the settings: frozen, and strict about its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def key(default: Any, meaning: str, *, unit: str = "", paper: str = "", named: str = "") -> Any:
    """Describe a key, in the one place where it is described; `...` as default: it must be given.

    `paper` is the paper's word on it, such as its value or the row Dn of docs/paper.md. `named` is the kind of part
    that the value names, as in `fedteddi list KIND`. Range and choices are those of the type.
    """
    extra: dict[str, Any] = {"unit": unit, "paper": paper, "named": named}
    return Field(default=default, description=meaning, json_schema_extra=extra)
