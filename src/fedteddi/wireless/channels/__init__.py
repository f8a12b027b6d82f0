"""Channel models, one per file: keyed draws in, the power gain |H|² [N] of a round out."""

from typing import TYPE_CHECKING, Any, cast

from fedteddi.errors import InputError, shown
from fedteddi.registry import Kind, find, has_method, make, must, option_defaults
from fedteddi.wireless.channels.channel import Channel, Draws, FunctionChannel, checked_gains
from fedteddi.wireless.channels.correlated_shadowing import CorrelatedShadowing
from fedteddi.wireless.channels.mobile import Mobile
from fedteddi.wireless.channels.rayleigh import Rayleigh
from fedteddi.wireless.channels.rician import Rician
from fedteddi.wireless.channels.shadowing import Shadowing
from fedteddi.wireless.channels.sionna import Sionna
from fedteddi.wireless.channels.trace import Trace
from fedteddi.wireless.channels.umi import UMi

if TYPE_CHECKING:  # pydantic takes longer to import than all else that a scheduler needs but numpy
    from fedteddi.settings import RadioSettings

__all__ = [
    "CHANNELS",
    "Channel",
    "CorrelatedShadowing",
    "Draws",
    "Mobile",
    "Rayleigh",
    "Rician",
    "Shadowing",
    "Sionna",
    "Trace",
    "UMi",
    "channel_name",
    "checked_gains",
    "make_channel",
]

BUILT_IN: dict[str, type[Channel]] = {
    "shadowing": Shadowing,
    "rayleigh": Rayleigh,
    "rician": Rician,
    "correlated-shadowing": CorrelatedShadowing,
    "mobile": Mobile,
    "umi": UMi,
    "sionna": Sionna,
    "trace": Trace,
}
# Keys of [radio] that are options of a channel: it has them by these names, and they are set there only.
SHARED = ("shadowing", "shadowing_std_db", "gain_trace", "radius_m")
EVERYWHERE = ("radius_m",)  # of these, the ones that matter whatever the channel
CHANNELS = Kind(
    name="channels",
    one="channel",
    built_in=lambda: BUILT_IN,
    check=must(
        has_method("gains"),
        "is not a channel: it must be a class with gains(self, positions_m, draws), or a function (positions_m, draws)",
    ),
    of_function=FunctionChannel,
)


def channel_name(radio: "RadioSettings") -> str:
    """Return which channel the settings mean: a `gain_trace` implies `trace`."""
    default = type(radio).model_fields["channel"].default
    if radio.gain_trace and radio.channel not in (default, "trace"):
        raise InputError(
            f"radio.channel={radio.channel!r} and radio.gain_trace={shown(radio.gain_trace)} exclude each other:"
            " set one of them"
        )
    if radio.channel == "trace" and not radio.gain_trace:
        raise InputError("radio.channel='trace' has no gains to read: set radio.gain_trace to a CSV file")
    return "trace" if radio.gain_trace else radio.channel


def make_channel(radio: "RadioSettings") -> Channel:
    """Make the channel of an experiment from `radio.channel`, `radio.channel_options` and the `SHARED` keys."""
    name = channel_name(radio)
    kind = find(CHANNELS, name).value
    known = (option_defaults(kind) if isinstance(kind, type) else None) or {}
    options: dict[str, Any] = dict(radio.channel_options)
    for key in SHARED:
        value = getattr(radio, key)
        if key in options:
            raise InputError(f"radio.channel_options.{key}={shown(options[key])}: set radio.{key} instead")
        if key in known:
            options[key] = value
        elif key not in EVERYWHERE and value != type(radio).model_fields[key].default:
            raise InputError(
                f"radio.{key}={shown(value)} has no effect on radio.channel={name!r}: leave it out"
            )
    return cast(Channel, make(CHANNELS, name, **options))
