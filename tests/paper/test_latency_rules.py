"""proportional-fair, fedcs, minimum-latency and best-channel-best-norm against plain readings of their rules."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from fedteddi import InputError, RoundView, Schedule, make_scheduler
from fedteddi.schedulers.made_rounds import random_round
from fedteddi.schedulers.schedule import choice_of, first_state
from fedteddi.schedulers.search import earliest
from fedteddi.wireless.uplink import LN2, minimum_bandwidth_hz

BITS, DEADLINE_S = 1e6, 1.0  # of `random_round`


def select(name: str, view: RoundView, seed: int = 0, **options: object) -> Schedule:
    """Ask a rule once; with memory, as in its first round."""
    rule = make_scheduler(name, **options)
    state = first_state(rule, int(view.client_id.max()) + 1)
    return choice_of(rule, view, np.random.default_rng(seed), state)[0]


def small_round(clients: int = 4, **changes: object) -> RoundView:
    """Clients who need 1 Hz of 2 each: exactly two fit."""
    view = random_round(np.random.default_rng(5), clients=clients, classes=3)
    fixed: dict[str, object] = {"needed_hz": np.ones(clients), "total_hz": 2.0, "compute_s": None}
    return dataclasses.replace(view, **(fixed | changes))  # type: ignore[arg-type]


def crowded_round(seed: int, clients: int) -> RoundView:
    """All can upload, but only half of the band that all of them need is there; `channel_gain` is P|H|²/N0 in hertz."""
    rng = np.random.default_rng(seed)
    compute_s, signal = rng.uniform(0.1, 0.7, size=clients), 10.0 ** rng.uniform(6.5, 8.5, size=clients)
    needed_hz = minimum_bandwidth_hz(BITS, DEADLINE_S - compute_s, 1.0, signal, 1.0)
    return dataclasses.replace(
        random_round(rng, clients=clients, classes=2),
        compute_s=compute_s,
        channel_gain=signal,
        needed_hz=needed_hz,
        total_hz=float(needed_hz.sum() / 2),
    )


# --- fedcs


def most_members(view: RoundView) -> int:
    """Try every set: the size of the largest whose least bandwidths fit into the band."""
    clients = range(view.num_clients)
    return max(
        size
        for size in range(view.num_clients + 1)
        for members in itertools.combinations(clients, size)
        if sum(view.needed_hz[n] for n in members) <= view.total_hz
    )


def test_fedcs_schedules_as_many_as_any_set_that_fits() -> None:
    """By enumeration of all 2^N sets, N ≤ 12; in some of the rounds more than one and fewer than all fit."""
    sizes = []
    for seed in range(60):
        view = random_round(np.random.default_rng(seed), clients=4 + seed % 9, classes=2)
        chosen = select("fedcs", view)
        assert len(chosen.clients) == most_members(view)
        assert list(view.needed_hz[list(chosen.clients)]) == sorted(view.needed_hz[list(chosen.clients)])
        sizes.append((len(chosen.clients), view.num_clients))
    assert sum(1 < size < clients for size, clients in sizes) >= 20


def test_fedcs_takes_the_least_bandwidths_where_best_channel_takes_the_strongest() -> None:
    """Of 5 Hz, 1 + 2 + 2 fit; client 0 has the best channel but computes long and needs 4 Hz: alone with client 3."""
    view = small_round(
        needed_hz=np.array([4.0, 2.0, 2.0, 1.0]), channel_gain=np.array([4.0, 3.0, 2.0, 3.5]), total_hz=5.0
    )
    assert select("fedcs", view).clients[0] == 3
    assert set(select("fedcs", view).clients) == {1, 2, 3}
    assert select("best-channel", view).clients == (0, 3)


def test_fedcs_breaks_ties_at_random() -> None:
    """Four equal clients, two fit: each pair of an order comes up, in 200 draws of 12."""
    drawn = {select("fedcs", small_round(), seed).clients for seed in range(200)}
    assert drawn == set(itertools.permutations(range(4), 2))


def test_fedcs_is_the_papers_greedy_where_uploads_follow_one_another() -> None:
    """Nishio and Yonetani's greedy, read with band in place of time: add the least increase, drop who passes the limit.

    One upload after another adds t_n to the round; one beside another adds B*_n to the band.
    """
    for seed in range(30):
        view = random_round(np.random.default_rng(seed), clients=12, classes=2)
        left, members, used = set(range(12)), [], 0.0
        while left:
            best = min(left, key=lambda n: view.needed_hz[n])
            left.remove(best)
            if used + view.needed_hz[best] <= view.total_hz:
                members.append(best)
                used += view.needed_hz[best]
        assert select("fedcs", view).clients == tuple(members)


# --- minimum-latency


def plain_band_hz(finish_s: float, compute_s: float, signal: float) -> float:
    """Bisect for the bandwidth whose Shannon rate B log2(1 + s/B) carries the bits from t_cp to T; inf if none does."""
    time_s = finish_s - compute_s
    if time_s <= 0 or signal / LN2 * time_s <= BITS:  # the rate of an endless band
        return math.inf
    low, high = 0.0, 1.0
    while high * math.log1p(signal / high) / LN2 * time_s < BITS:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle * math.log1p(signal / middle) / LN2 * time_s < BITS:
            low = middle
        else:
            high = middle
    return high


def plain_round_s(view: RoundView, members: list[int]) -> float:
    """Bisect for T(S): the earliest time by which the whole band can serve all members; inf if the deadline passes."""
    assert view.compute_s is not None

    def fits(finish_s: float) -> bool:
        needed = (plain_band_hz(finish_s, view.compute_s[n], view.channel_gain[n]) for n in members)  # type: ignore[index]
        return sum(needed) <= view.total_hz

    if not fits(DEADLINE_S):
        return math.inf
    low, high = 0.0, DEADLINE_S
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def plain_greedy(view: RoundView) -> list[int]:
    """Shi et al.'s greedy as one would first write it: T(S ∪ n) of every n in each step."""
    members: list[int] = []
    while len(members) < view.num_clients:
        left = [n for n in range(view.num_clients) if n not in members]
        end_s, best = min((plain_round_s(view, [*members, n]), n) for n in left)
        if end_s > DEADLINE_S:
            break
        members.append(best)
    return members


def test_minimum_latency_is_the_plain_greedy() -> None:
    """Seven clients, no ties; in some rounds the order is not that of fedcs. The plain reading never inverts B*."""
    differs = 0
    for seed in range(12):
        view = crowded_round(seed, clients=7)
        chosen = select("minimum-latency", view).clients
        assert list(chosen) == plain_greedy(view)
        assert 2 <= len(chosen) < 7
        differs += chosen != select("fedcs", view).clients
    assert differs >= 3


def test_minimum_latency_shares_the_band_so_that_the_round_ends_at_t_of_s() -> None:
    """Every member's Shannon rate over its bandwidth ends its upload at the plain T(S), to 1e-6 s."""
    for seed in range(6):
        view = crowded_round(seed, clients=7)
        chosen = select("minimum-latency", view)
        end_s = plain_round_s(view, list(chosen.clients))
        for n, hz in zip(chosen.clients, chosen.bandwidth_hz, strict=True):
            rate = hz * math.log1p(view.channel_gain[n] / hz) / LN2
            assert view.compute_s is not None
            assert view.compute_s[n] + BITS / rate == pytest.approx(end_s, abs=1e-6)
        assert sum(chosen.bandwidth_hz) == pytest.approx(view.total_hz)


def test_minimum_latency_gives_the_least_bandwidths_if_the_spare_band_stays_unused() -> None:
    view = crowded_round(3, clients=30)
    shared, unused = (select("minimum-latency", view, spare_band=spare) for spare in ("share", "unused"))
    assert shared.clients == unused.clients
    assert list(unused.bandwidth_hz) == list(view.needed_hz[list(unused.clients)])
    assert sum(shared.bandwidth_hz) > sum(unused.bandwidth_hz)


def test_minimum_latency_takes_the_first_of_a_longer_admission() -> None:
    """Steps do not depend on how many follow; with two clients the round ends earlier than with all that fit."""
    view = crowded_round(3, clients=30)
    full = select("minimum-latency", view)
    two = select("minimum-latency", view, most_clients=2)
    assert len(full.clients) > 2
    assert two.clients == full.clients[:2]
    assert plain_round_s(view, list(two.clients)) < plain_round_s(view, list(full.clients))
    for wrong in (0, 1.5, "few"):
        with pytest.raises(InputError, match="most_clients="):
            make_scheduler("minimum-latency", most_clients=wrong)


def test_minimum_latency_prefers_an_early_start_early_and_a_strong_channel_late() -> None:
    """Client 0 computes 0.1 s over a weak channel, client 1 0.5 s over a strong one; alone with 1 MHz:

    0.1 + 1/log2(1 + 4) = 0.531 s against 0.5 + 1/log2(1 + 1000) = 0.600 s, so client 0 is first. By the
    deadline of 1 s client 0 has 0.9 s and client 1 0.5 s: 1/0.9 = B log2(1 + 4/B) and 1/0.5 = B log2(1 + 1000/B) have
    B = 0.285 and 0.158 MHz, so fedcs begins with client 1.
    """
    compute_s, signal = np.array([0.1, 0.5]), np.array([4e6, 1e9])
    view = dataclasses.replace(
        random_round(np.random.default_rng(0), clients=2, classes=2),
        compute_s=compute_s,
        channel_gain=signal,
        needed_hz=minimum_bandwidth_hz(BITS, DEADLINE_S - compute_s, 1.0, signal, 1.0),
        total_hz=1e6,
    )
    assert plain_round_s(view, [0]) == pytest.approx(0.1 + 1 / math.log2(5))
    assert plain_round_s(view, [1]) == pytest.approx(0.5 + 1 / math.log2(1001))
    assert view.needed_hz == pytest.approx(
        [plain_band_hz(1.0, 0.1, 4e6), plain_band_hz(1.0, 0.5, 1e9)], rel=1e-9
    )
    assert view.needed_hz == pytest.approx([0.285e6, 0.158e6], rel=0.005)
    assert select("minimum-latency", view).clients == (0, 1)
    assert select("fedcs", view).clients == (1, 0)


def test_minimum_latency_admits_equal_clients_in_random_order() -> None:
    """Four clients, 0.5 s left each, s = 1e7 Hz: all orders of all four, who fit, come up in 400 draws of 24."""
    compute_s, signal = np.full(4, 0.5), np.full(4, 1e7)
    view = dataclasses.replace(
        random_round(np.random.default_rng(0), clients=4, classes=2),
        compute_s=compute_s,
        channel_gain=signal,
        needed_hz=minimum_bandwidth_hz(BITS, DEADLINE_S - compute_s, 1.0, signal, 1.0),
        total_hz=1e7,
    )
    drawn = {select("minimum-latency", view, seed).clients for seed in range(400)}
    assert drawn == set(itertools.permutations(range(4)))


def test_minimum_latency_says_what_it_needs() -> None:
    view = random_round(np.random.default_rng(0), clients=3, classes=2)
    for field in ("compute_s", "deadline_s", "model_bits"):
        with pytest.raises(InputError, match="minimum-latency needs compute_s, deadline_s and model_bits"):
            select("minimum-latency", dataclasses.replace(view, **{field: None}))


def test_only_the_front_can_be_next_and_it_is_kept_up_to_date() -> None:
    """Of 40 clients by rising computation time, nobody on the front is beaten by an earlier, at least as strong one.

    Clients are taken off one by one at random until nobody is left; signals of 0 to 9 tie often.
    """
    rng = np.random.default_rng(0)
    for _ in range(20):
        signal = rng.integers(0, 10, size=40).astype(np.float64)
        left = list(range(40))
        front = earliest.records(signal, -np.inf)
        while left:
            unbeaten = [n for n in left if not any(m < n and signal[m] >= signal[n] for m in left)]
            assert front.tolist() == unbeaten
            place = int(rng.integers(len(front)))
            left.remove(int(front[place]))
            front = earliest.front_without(front, place, signal)
        assert len(front) == 0


# --- best-channel-best-norm


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [(1, (1, 2)), (2, (2, 1)), (3, (3, 2)), (4, (0, 3)), ("half", (0, 3))],
)
def test_best_channel_best_norm_takes_the_largest_norms_of_the_strongest_channels(
    candidates: object, expected: tuple[int, ...]
) -> None:
    """Channels rank 1, 2, 3, 0; norms 0, 3, 2, 1; two fit.

    K_c = 1: client 1 fits, so the next strongest, 2, follows. K_c = 2: 2 before 1. K_c = 3: 3 and 2. K_c = 4 or half of
    four, but at least 15: norms alone decide.
    """
    view = small_round(
        channel_gain=np.array([0.1, 0.4, 0.3, 0.2]), update_norm=np.array([4.0, 1.0, 2.0, 3.0])
    )
    assert select("best-channel-best-norm", view, candidates=candidates).clients == expected


def test_best_channel_best_norm_may_keep_to_its_candidates() -> None:
    view = small_round(channel_gain=np.arange(4.0), update_norm=np.ones(4), total_hz=9.0)
    assert select("best-channel-best-norm", view, candidates=1, further=False).clients == (3,)
    assert select("best-channel-best-norm", view, candidates=1).clients == (3, 2, 1, 0)


def test_best_channel_best_norm_considers_only_clients_that_can_upload() -> None:
    """Clients 2 and 3 have the strongest channels, but one has no time left and one needs more than the band."""
    view = small_round(
        channel_gain=np.arange(4.0),
        update_norm=np.array([1.0, 2.0, 9.0, 9.0]),
        needed_hz=np.array([1.0, 1.0, np.inf, 3.0]),
    )
    assert select("best-channel-best-norm", view, candidates=2).clients == (1, 0)


def test_best_channel_best_norm_says_what_it_needs() -> None:
    rule = make_scheduler("best-channel-best-norm")
    assert rule.needs == {"update_norm"}  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="ranks clients by update_norm, which is missing"):
        select("best-channel-best-norm", small_round(update_norm=None))


@pytest.mark.parametrize("field", ["channel_gain", "update_norm"])
def test_best_channel_best_norm_breaks_ties_at_random(field: str) -> None:
    """One of four fits. Equal channels leave the one candidate to chance, equal norms the pick among four."""
    view = small_round(**{field: np.full(4, 0.5)}, total_hz=1.0)
    candidates = 1 if field == "channel_gain" else 4
    drawn = {
        select("best-channel-best-norm", view, seed, candidates=candidates).clients for seed in range(100)
    }
    assert drawn == {(n,) for n in range(4)}


# --- proportional-fair


def plain_proportional_fair(
    rates: np.ndarray, needs: np.ndarray, total_hz: float, reporting: list[list[int]], window: int, mean: str
) -> list[set[int]]:
    """Play rounds with dictionaries and fractions: who uploads, given rates and needs [K, N] and who reports."""
    average: dict[int, Fraction] = {}
    chosen, heard = [], dict.fromkeys(range(rates.shape[1]), 0)
    for rate, need, here in zip(rates, needs, reporting, strict=True):
        score = {}
        for n in here:
            if average.get(n, 0) > 0:
                score[n] = (Fraction(rate[n]) / average[n], 0.0)
            else:
                score[n] = (1, 0.0) if mean == "offered" else (10**9, rate[n])
        best, used_hz = set(), 0.0
        for n in sorted(here, key=lambda n, score=score: score[n], reverse=True):  # type: ignore[misc]
            used_hz += need[n]
            if used_hz > total_hz:
                break
            best.add(n)
        chosen.append(best)
        for n in here:
            heard[n] += 1
            got = Fraction(rate[n]) if mean == "offered" or n in best else 0
            old = average.get(n, Fraction(0))
            average[n] = old + (got - old) / min(heard[n], window)
    return chosen


@pytest.mark.parametrize("rate", ["snr", "bits-per-hz"])
@pytest.mark.parametrize("mean", ["offered", "served"])
@pytest.mark.parametrize("window", [1, 3, 100])
def test_proportional_fair_is_the_plain_reading(rate: str, mean: str, window: int) -> None:
    """12 rounds, five clients, one of whom is missing in every third; two or three fit 4 Hz, as each needs 1 to 2.

    The field that the rate is not taken from is drawn apart.
    """
    rng = np.random.default_rng(7)
    gains, needs = rng.uniform(0.5, 2.0, size=(12, 5)), rng.uniform(1.0, 2.0, size=(12, 5))
    reporting = [[n for n in range(5) if k % 3 != 2 or n != k % 5] for k in range(12)]
    rule = make_scheduler("proportional-fair", rate=rate, mean=mean, window=window)
    state = first_state(rule, 5)
    played = []
    for k, here in enumerate(reporting):
        view = small_round(
            len(here),
            client_id=np.array(here),
            channel_gain=gains[k, here],
            needed_hz=needs[k, here],
            total_hz=4.0,
        )
        chosen, state = choice_of(rule, view, np.random.default_rng(k), state)
        played.append({here[n] for n in chosen.clients})
    rates = gains if rate == "snr" else 1 / needs
    expected = plain_proportional_fair(rates, needs, 4.0, reporting, window, mean)
    first = 1 if mean == "offered" else 0  # all ratios are 1 in the first round: chance decides
    assert played[first:] == expected[first:]
    assert len({tuple(sorted(clients)) for clients in played}) >= 4


def test_proportional_fair_prefers_who_is_above_its_own_mean() -> None:
    """Client 0 is far stronger, but fell by half; client 1 doubled: 0.5 against 2. Best Channel takes client 0."""
    rule = make_scheduler("proportional-fair")
    state = first_state(rule, 2)
    first, second = (
        small_round(2, channel_gain=gain, total_hz=1.0)
        for gain in (np.array([20.0, 1.0]), np.array([10.0, 2.0]))
    )
    _, state = choice_of(rule, first, np.random.default_rng(0), state)
    assert choice_of(rule, second, np.random.default_rng(0), state)[0].clients == (1,)
    assert select("best-channel", second).clients == (0,)


@pytest.mark.parametrize("mean", ["offered", "served"])
def test_proportional_fair_over_a_channel_that_never_changes(mean: str) -> None:
    """Gains 8, 4, 2, 1, one of four fits, 400 rounds.

    `offered`: all ratios are 1, so chance decides: 100 ± 26 times each is three standard errors, √(400 · ¼ · ¾) = 8.7.
    `served`: the ratio is (rounds heard)/(times served), so all have equal turns: 100 times each, whatever their gain.
    """
    rule = make_scheduler("proportional-fair", mean=mean, window=10**6)
    state, rng = first_state(rule, 4), np.random.default_rng(0)
    view = small_round(channel_gain=np.array([8.0, 4.0, 2.0, 1.0]), total_hz=1.0)
    times = np.zeros(4)
    for _ in range(400):
        chosen, state = choice_of(rule, view, rng, state)
        times[list(chosen.clients)] += 1
    assert np.abs(times - 100).max() <= (26 if mean == "offered" else 1)


def test_proportional_fair_shares_a_fading_channel_equally_and_uses_it_well() -> None:
    """Rayleigh fading, powers g_n · Exp(1) with g = 1, 3, 10, one of three fits, 3,000 rounds.

    |H|²/mean is Exp(1) for all: 1,000 ± 78 times each is three standard errors, √(3000 · ⅓ · ⅔) = 25.8. The largest of
    three Exp(1) has mean 1 + ½ + ⅓ = 11/6, and its standard error is √(1 + ¼ + 1/9)/√3000 = 0.0213.
    """
    rule = make_scheduler("proportional-fair", window=10**6)
    state, rng = first_state(rule, 3), np.random.default_rng(1)
    scale, times, reached = np.array([1.0, 3.0, 10.0]), np.zeros(3), []
    for _ in range(3000):
        power = rng.exponential(size=3)
        view = small_round(3, channel_gain=scale * power, total_hz=1.0)
        (chosen,), state = (lambda answer: (answer[0].clients, answer[1]))(choice_of(rule, view, rng, state))
        times[chosen] += 1
        reached.append(power[chosen])
    assert np.abs(times - 1000).max() <= 78
    assert np.mean(reached) == pytest.approx(11 / 6, abs=3 * 0.0213)


def test_proportional_fair_with_served_means_first_serves_everybody_once() -> None:
    """Nobody has been scheduled yet: the highest rates lead, then the others, two a round."""
    rule = make_scheduler("proportional-fair", mean="served")
    state = first_state(rule, 4)
    view = small_round(channel_gain=np.array([1.0, 4.0, 2.0, 3.0]))
    once, state = choice_of(rule, view, np.random.default_rng(0), state)
    twice, state = choice_of(rule, view, np.random.default_rng(0), state)
    assert (once.clients, twice.clients) == ((1, 3), (2, 0))


def test_proportional_fair_refuses_options_that_mean_nothing() -> None:
    for wrong in ({"window": 0}, {"window": 2.5}, {"rate": "bits"}, {"mean": "median"}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            make_scheduler("proportional-fair", **wrong)
