"""A colour for each scheduler, by day and by night: those of the figures, which colour-blind readers can tell apart."""

from collections.abc import Iterable

from fedteddi.results.drawing import COLOURS

# Lighter where a colour of the figures would sink into a dark ground.
BY_NIGHT = {
    "#000000": "#F5F5F5",
    "#B00020": "#FF7A8A",
    "#0072B2": "#4C8DFF",
    "#D55E00": "#FF7F3F",
    "#E69F00": "#FFC94D",
    "#56B4E9": "#8FDBFF",
    "#009E73": "#3CCFA4",
    "#8C7A00": "#DCCB3A",
    "#882255": "#D97BAE",
    "#999999": "#A6A6A6",
}
OTHERS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#8C7A00")


def colours_of(names: Iterable[str]) -> dict[str, list[str]]:
    """Return two colours for each scheduler, [light, dark]; those without one of their own take what is free."""
    wanted = list(dict.fromkeys(names))
    taken = {COLOURS[name] for name in wanted if name in COLOURS}
    free = [colour for colour in OTHERS if colour not in taken] or list(OTHERS)
    found, number = {}, 0
    for name in wanted:
        colour = COLOURS.get(name)
        if colour is None:
            colour, number = free[number % len(free)], number + 1
        found[name] = [colour, BY_NIGHT.get(colour, colour)]
    return found
