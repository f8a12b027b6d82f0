"""What one pass over the candidates costs by different means: the choice behind `search/problem.py`.

    python benchmarks/one_pass.py [--clients 1000000]

A pass computes Σ_c |A_cn + v_c| for every client n. The baseline is plain numpy on whole arrays, in the same run.
numba is timed if it is installed (it is not a dependency); its compilation is timed apart.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

CLASSES = 10


def median_ms(work: Callable[[], object], repeats: int = 9) -> float:
    """Return the median time of some repeats after a warm-up."""
    work()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e3


def in_blocks(pull: np.ndarray, shift: np.ndarray, width: int) -> np.ndarray:
    """One pass with a scratch of `width` clients that stays in the cache."""
    count = pull.shape[1]
    found, scratch = np.empty(count), np.empty((len(shift), width))
    for start in range(0, count, width):
        stop = min(start + width, count)
        part = scratch[:, : stop - start]
        np.add(pull[:, start:stop], shift[:, None], out=part)
        np.abs(part, out=part)
        np.add.reduce(part, axis=0, out=found[start:stop])
    return found


def main() -> None:
    """Print milliseconds and the ratio to the baseline."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--clients", type=int, default=1_000_000)
    count = parser.parse_args().clients
    rng = np.random.default_rng(0)
    pull, shift = rng.standard_normal((CLASSES, count)), rng.standard_normal(CLASSES)
    baseline = median_ms(lambda: np.abs(pull + shift[:, None]).sum(axis=0))
    print(f"whole arrays          {baseline:7.1f} ms   1.00")
    for width in (1024, 4096, 13_107, 65_536):
        ms = median_ms(lambda width=width: in_blocks(pull, shift, width))  # type: ignore[misc]
        print(f"blocks of {width:6,}      {ms:7.1f} ms   {ms / baseline:.2f}")
    try:
        import numba
    except ImportError:
        print("numba                 not installed")
        return
    by_client = np.ascontiguousarray(pull.T)

    @numba.njit(parallel=True)  # type: ignore[untyped-decorator]
    def compiled(pull: np.ndarray, shift: np.ndarray) -> np.ndarray:
        found = np.empty(len(pull))
        for n in numba.prange(len(pull)):
            total = 0.0
            for c in range(len(shift)):
                total += abs(pull[n, c] + shift[c])
            found[n] = total
        return found

    start = time.perf_counter()
    compiled(by_client, shift)
    compile_s = time.perf_counter() - start
    ms = median_ms(lambda: compiled(by_client, shift))
    print(f"numba, 2 threads      {ms:7.1f} ms   {ms / baseline:.2f}   (and {compile_s:.1f} s to compile)")


if __name__ == "__main__":
    main()
