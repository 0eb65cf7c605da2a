"""The thresholded noisy histogram: which keys come out, and with which noisy count (proof: histogram.md)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from querycloak.privacy.parameters import natural, refuse, whole
from querycloak.privacy.sampling.exact import Chance, stated
from querycloak.privacy.sampling.noise import Noise
from querycloak.privacy.sampling.randomness import IntArray, Randomness

LARGEST_COUNT = 2**53
LARGEST_CELLS = 2**62


@dataclass(frozen=True)
class HistogramRelease:
    """The keys that came out, by run and key; keys from len(counts) on are the public ones of count zero.

    `draws` is the number of noise values drawn. It depends on the log: private output.
    """

    run: IntArray
    key: IntArray
    count: IntArray
    draws: int


@dataclass(frozen=True)
class GroupRelease:
    """The keys that came out, each as a rank within its group of equal counts, in no particular order."""

    run: IntArray
    group: IntArray
    rank: IntArray
    count: IntArray
    draws: int


def release(
    counts: ArrayLike,
    noise: Noise,
    threshold: int,
    randomness: Randomness,
    *,
    zeros: int = 0,
    runs: int = 1,
    published_noise: Noise | None = None,
    tie_probability: float = 0.0,
) -> HistogramRelease:
    """Return the keys whose noisy count exceeds the threshold, in each of `runs` independent runs.

    counts: the true counts, at least 1 each. zeros: how many further public keys have count 0.
    published_noise: noise for a second draw that is published instead of the one that decided.
    tie_probability: that of a key whose noisy count equals the threshold (claim 7).
    """
    true = _checked_counts(counts, least=1)
    zeros = whole("zeros", zeros, "give the number of public keys with no count", least=0)
    # Equal counts side by side: a rank within a group is then a place in this order.
    order = np.argsort(_compact(true), kind="stable")
    values, sizes = np.unique(true[order], return_counts=True)
    if zeros:
        values, sizes = np.append(values, 0), np.append(sizes, zeros)
    groups = release_groups(
        values,
        sizes,
        noise,
        threshold,
        randomness,
        runs=runs,
        published_noise=published_noise,
        tie_probability=tie_probability,
    )
    # The zeros come last, so their places in the order are their keys already, and are not written down.
    key = (np.cumsum(sizes) - sizes)[groups.group] + groups.rank
    counted = key < true.size
    key[counted] = order[key[counted]]
    sorted_by_key = np.lexsort((key, groups.run))
    return HistogramRelease(groups.run[sorted_by_key], key[sorted_by_key], groups.count[sorted_by_key], groups.draws)


def release_groups(
    values: ArrayLike,
    sizes: ArrayLike,
    noise: Noise,
    threshold: int,
    randomness: Randomness,
    *,
    runs: int = 1,
    published_noise: Noise | None = None,
    tie_probability: float = 0.0,
) -> GroupRelease:
    """Return the same release where only the number of keys (sizes) of each count (values) is known.

    What lies at or below the threshold costs one binomial draw per group; only what passes is drawn.
    """
    value, size = _checked_counts(values, least=0), _checked_counts(sizes, least=1)
    if value.shape != size.shape:
        refuse("sizes", "as many as values", "another number", "give one size for each count")
    threshold = whole("threshold", threshold, "give the count K that a key must exceed", least=-LARGEST_COUNT)
    runs = natural("runs", runs, "give the number of independent runs")
    # Group sizes are private as well: no message quotes one.
    if size.size and int(size.max()) * runs > LARGEST_CELLS:
        refuse("runs", "few enough for 2^62 draws per group", runs, "ask for fewer")
    cells = size * runs
    # Ties, noisy counts equal to the threshold, are drawn too and come out with the tie probability.
    exceeded = threshold - 1 if tie_probability else threshold
    low, high = np.flatnonzero(value <= exceeded), np.flatnonzero(value > exceeded)
    passing = [_at_or_below(int(value[i]), int(cells[i]), noise, exceeded, randomness) for i in low]
    high_group, high_cell, high_noisy = _above(value[high], cells[high], noise, exceeded, randomness)
    group = np.concatenate([np.repeat(low, [chosen.size for chosen, _ in passing]), high[high_group]])
    cell = np.concatenate([*(chosen for chosen, _ in passing), high_cell])
    noisy = np.concatenate([*(drawn for _, drawn in passing), high_noisy])
    draws = group.size - high_group.size + int(cells[high].sum())
    if tie_probability:
        kept = _with_ties(noisy, threshold, tie_probability, randomness)
        group, cell, noisy = group[kept], cell[kept], noisy[kept]
    if published_noise is not None:
        noisy = value[group] + randomness.noise(published_noise, group.size)
        draws += group.size
    # A run is one more copy of the group: cells count through the first run, then the second, and so on.
    return GroupRelease(cell // size[group], group, cell % size[group], noisy, draws)


def _with_ties(noisy: IntArray, threshold: int, tie_probability: float, randomness: Randomness) -> NDArray[np.bool_]:
    """Return the mask of keys that come out: all above the threshold, and each tie with the tie probability."""
    kept = noisy > threshold
    at_threshold = np.flatnonzero(noisy == threshold)
    happened = randomness.binomial(at_threshold.size, Chance.exactly(stated(tie_probability)))
    kept[at_threshold[randomness.choose(at_threshold.size, happened)]] = True
    return kept


def noisy_counts(counts: ArrayLike, noise: Noise, randomness: Randomness, *, runs: int = 1) -> IntArray:
    """Return every count with noise and no threshold, one row per run: for keys that are all public."""
    true = _checked_counts(counts, least=0)
    runs = natural("runs", runs, "give the number of independent runs")
    return true + randomness.noise(noise, runs * true.size).reshape(runs, true.size)


def _at_or_below(
    count: int, cells: int, noise: Noise, threshold: int, randomness: Randomness
) -> tuple[IntArray, IntArray]:
    """Return which cells of one low count pass, and their noisy counts."""
    needed = threshold + 1 - count
    passing = randomness.binomial(cells, noise.tail(needed))
    chosen = randomness.choose(cells, passing)
    return chosen, count + randomness.at_least(noise, needed, passing)


def _above(
    values: IntArray, cells: IntArray, noise: Noise, threshold: int, randomness: Randomness
) -> tuple[IntArray, IntArray, IntArray]:
    """Return group, cell and noisy count of what passes above the threshold, where every cell is drawn."""
    group = np.repeat(np.arange(values.size), cells)
    noisy = values[group] + randomness.noise(noise, group.size)
    first = np.cumsum(cells) - cells
    cell = np.arange(group.size) - first[group]
    passed = noisy > threshold
    return group[passed], cell[passed], noisy[passed]


def _checked_counts(counts: ArrayLike, *, least: int) -> IntArray:
    array = np.asarray(counts)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        rule = "a one-dimensional array of whole numbers"
        refuse("counts", rule, f"{array.dtype} of shape {array.shape}", "count keys before releasing")
    # The counts are private: the message must not quote one.
    if array.size and not (int(array.min()) >= least and int(array.max()) <= LARGEST_COUNT):
        refuse("counts", f"from {least} to 2^53 each", "one outside", "pass public keys without a count as zeros")
    return array.astype(np.int64)


def _compact(counts: IntArray) -> NDArray[np.integer]:
    """Return the counts in 16 bits if they fit: numpy then sorts by radix, several times as fast."""
    if counts.size and int(counts.max()) < 2**16:
        return counts.astype(np.uint16)
    return counts
