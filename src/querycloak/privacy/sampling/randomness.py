"""The only source of random numbers: OpenDP's noise, and draws by inversion of the operating system's random bits.

Nothing here rounds: every draw has exactly the law that it names (proofs in histogram.md, claim 6).
"""

import os
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ResourceError
from querycloak.privacy import order
from querycloak.privacy.parameters import refuse, whole
from querycloak.privacy.sampling.exact import Chance, exp_minus
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise, RareEvents, share_out

IntArray = NDArray[np.int64]
Words = NDArray[np.uint64]

FIRST_UNBIASED_OPENDP = (0, 14, 2)
"""Earlier samplers are biased: opendp issue 2638."""
DRAWS_AT_ONCE = 100_000
BYTES_AT_ONCE = 1 << 24
WORD = 64
FEW = 32
"""Draws up to which a table of the law costs more than it saves."""
MANY = 1 << 24
"""Events from which on they are no longer decided one by one, if they are unlikely."""
MOST_HAPPENING = 1 << 22
SECRET_BYTES = 32


Survival = Noise | RareEvents
"""A law on whole numbers whose tail is known to any digit."""


class Randomness:
    """Exact random draws; with a seed, repeatable and therefore not private.

    Every public method that draws raises OrderError before a running release is paid, also for 0 draws (order.py).
    """

    def __init__(self, seed: int | None = None) -> None:
        self.private = seed is None
        self._bytes: Callable[[int], bytes] = os.urandom
        if seed is not None:
            way_out = "leave the seed out for a private release"
            self._bytes = _seeded_bytes(whole("seed", seed, way_out, least=0))

    def make_ready(self) -> None:
        """Load what private draws need; nothing is drawn."""
        if self.private:
            _opendp_sampler(Laplace(1))

    def noise(self, noise: Noise, size: int) -> IntArray:
        """Return independent draws of the noise."""
        order.check_may_draw()
        if not self.private:
            return self._own_noise(noise, size)
        draws = np.empty(size, dtype=np.int64)
        sampler = _opendp_sampler(noise)
        for start in range(0, size, DRAWS_AT_ONCE):
            count = min(DRAWS_AT_ONCE, size - start)
            draws[start : start + count] = sampler(np.zeros(count, dtype=np.int64))
        return draws

    def many(self, noise: Noise, size: int) -> IntArray:
        """Return independent draws of the noise by inversion: as exact as OpenDP's, and fast enough for millions."""
        order.check_may_draw()
        draws = np.empty(size, dtype=np.int64)
        for start in range(0, size, DRAWS_AT_ONCE):
            count = min(DRAWS_AT_ONCE, size - start)
            draws[start : start + count] = self._own_noise(noise, count)
        return draws

    def _own_noise(self, noise: Noise, size: int) -> IntArray:
        """Draw |Z| and a sign, again where that is minus zero: the law of OpenDP, which takes no seed."""
        draws = np.empty(0, dtype=np.int64)
        while draws.size < size:
            missing = size - draws.size
            magnitude = self.at_least(noise, 0, 2 * missing)
            negative = self.below(2, 2 * missing) == 1
            kept = np.flatnonzero(~negative | (magnitude != 0))[:missing]
            draws = np.concatenate([draws, np.where(negative[kept], -magnitude[kept], magnitude[kept])])
        return draws

    def at_least(self, noise: Noise, start: int, size: int) -> IntArray:
        """Return independent draws of Z given Z >= start, for start >= 0, by exact inversion."""
        order.check_may_draw()
        return self._inverted(noise, start, size)

    def _inverted(self, noise: Survival, start: int, size: int) -> IntArray:
        if size == 0:
            return np.empty(0, dtype=np.int64)
        words = self._words(size)
        if size <= FEW and isinstance(noise, Gaussian) and int(words.min()) >= 1 << WORD // 2:
            return np.array([self._searched(noise, start, int(word)) for word in words], dtype=np.int64)
        boundaries = _boundaries(noise, start, WORD, WORD // 2)
        ascending = np.array(boundaries[::-1], dtype=np.uint64)
        not_above = np.searchsorted(ascending, words, side="right")
        # A word equal to a boundary's digits, or in the last stretch of the table, needs more digits.
        unsure = (words <= ascending[0]) | (ascending[np.maximum(not_above, 1) - 1] == words)
        draws = start + len(boundaries) - not_above
        for i in np.flatnonzero(unsure):
            draws[i] = start + self._with_more_digits(noise, start, int(words[i]), WORD)
        return draws

    def _searched(self, noise: Gaussian, start: int, word: int) -> int:
        """Return one draw by bisection: a few boundaries are computed instead of the whole table."""
        low, high = 0, 1
        while (boundary := noise.survives(start, high).floor(WORD)) > word:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            digits = noise.survives(start, middle).floor(WORD)
            if digits > word:
                low = middle
            else:
                high, boundary = middle, digits
        return start + (low if boundary < word else self._with_more_digits(noise, start, word, WORD))

    def _with_more_digits(self, noise: Survival, start: int, word: int, bits: int) -> int:
        boundaries = _boundaries(noise, start, bits, 0)
        while word == 0 or word in boundaries:
            bits += WORD
            word = word << WORD | int(self._words(1)[0])
            boundaries = _boundaries(noise, start, bits, 0)
        return sum(boundary > word for boundary in boundaries)

    def binomial(self, n: int, chance: Chance) -> int:
        """Return how many of n independent events of that chance happen, reading about 2n random bits or fewer."""
        order.check_may_draw()
        if chance.floor(0) >= 1:
            return n
        if n > MANY and n * chance.up() < MOST_HAPPENING:
            return self._rare(n, chance)
        happened, undecided, place = 0, n, 0
        while undecided:
            place += 1
            # Digits are asked for in blocks, as each block costs an exact computation.
            block = -(-place // WORD) * WORD
            digit = chance.floor(block) >> (block - place) & 1
            ones = self._ones(undecided)
            if digit:
                happened += undecided - ones
                undecided = ones
            else:
                undecided -= ones
        return happened

    def _rare(self, n: int, chance: Chance) -> int:
        """Return the same by inversion, in parts with few expected events: n bits would be too many to read."""
        parts = (self._inverted(RareEvents(size, chance), 0, number) for size, number in share_out(n, chance))
        return int(sum(part.sum() for part in parts))

    def bernoulli(self, chance: Chance) -> bool:
        """Return whether an event of that chance happens."""
        order.check_may_draw()
        return self.binomial(1, chance) == 1

    def proportional_to_exp_minus(self, exponents: Sequence[Fraction]) -> int:
        """Return an index i with a chance proportional to e^-exponents[i], the smallest of which is 0."""
        order.check_may_draw()
        return int(self.many_proportional_to_exp_minus(exponents, 1)[0])

    def many_proportional_to_exp_minus(self, exponents: Sequence[Fraction], size: int) -> IntArray:
        """Return independent draws of such an index.

        Drawn uniformly, accepted with chance e^-exponent, else drawn again (bound_choice.md).
        """
        order.check_may_draw()
        if not exponents or min(exponents) != 0:
            refuse("exponents", "at least one, the smallest of them 0", "others", "subtract the smallest first")
        drawn = np.empty(size, dtype=np.int64)
        waiting = np.arange(size)
        while waiting.size:
            proposed = self.below(len(exponents), waiting.size)
            accepted = np.zeros(waiting.size, dtype=np.bool_)
            for i in np.unique(proposed).tolist():
                places = np.flatnonzero(proposed == i)
                kept = places.size
                if exponents[i] != 0:
                    kept = self.binomial(places.size, _exp_minus(exponents[i]))
                accepted[places[self.choose(places.size, kept)]] = True
            drawn[waiting[accepted]] = proposed[accepted]
            waiting = waiting[~accepted]
        return drawn

    def below(self, bound: int, size: int) -> IntArray:
        """Return independent uniform integers from 0 to bound - 1."""
        order.check_may_draw()
        whole("bound", bound, "a draw needs at least one outcome", least=1, most=2**63)
        shift = np.uint64(WORD - max(1, (bound - 1).bit_length()))
        drawn = np.empty(0, dtype=np.int64)
        while drawn.size < size:
            words = self._words(size - drawn.size) >> shift
            fitting = words[words < np.uint64(bound)]
            drawn = np.concatenate([drawn, fitting.astype(np.int64)])
        return drawn

    def secret(self) -> str:
        """Return 256 random bits in hexadecimal: the key of digests that only one release has."""
        return bytes(self.below(256, SECRET_BYTES).tolist()).hex()

    def below_each(self, bounds: IntArray) -> IntArray:
        """Return independent uniform integers, each from 0 to its own bound - 1."""
        order.check_may_draw()
        if bounds.size and int(bounds.min()) < 1:
            refuse("bounds", "at least 1 each", "one below", "a draw needs at least one outcome")
        # The least 2^n - 1 that covers each bound: a word under that mask is kept if it is below the bound.
        masks = (bounds - 1).astype(np.uint64)
        for step in (1, 2, 4, 8, 16, 32):
            masks |= masks >> np.uint64(step)
        drawn = np.empty(bounds.size, dtype=np.int64)
        waiting = np.arange(bounds.size)
        while waiting.size:
            words = (self._words(waiting.size) & masks[waiting]).astype(np.int64)
            fits = words < bounds[waiting]
            drawn[waiting[fits]] = words[fits]
            waiting = waiting[~fits]
        return drawn

    def choose(self, n: int, k: int) -> IntArray:
        """Return k different integers below n in ascending order, every such set equally likely."""
        order.check_may_draw()
        if not 0 <= k <= n:
            # Both may be private: group sizes of a histogram.
            refuse("k", "from 0 to n", "a number outside", "choose no more than there are")
        if 2 * k > n:
            kept = np.ones(n, dtype=np.bool_)
            kept[self.choose(n, n - k)] = False
            return np.flatnonzero(kept).astype(np.int64)
        chosen = np.empty(0, dtype=np.int64)
        # Each round draws only what is missing, so the set is that of the first k different draws.
        while chosen.size < k:
            # By sorting: numpy's own union hashes, which takes a hundred times as long on dense numbers.
            chosen = np.sort(np.concatenate([chosen, self.below(n, k - chosen.size)]))
            chosen = chosen[np.append(True, chosen[1:] != chosen[:-1])]
        return chosen

    def _words(self, size: int) -> Words:
        return np.frombuffer(self._bytes(8 * size), dtype=np.uint64)

    def _ones(self, bits: int) -> int:
        """Return how many of that many fair bits are 1."""
        ones = 0
        while bits > 8 * BYTES_AT_ONCE:
            ones += _popcount(self._bytes(BYTES_AT_ONCE))
            bits -= 8 * BYTES_AT_ONCE
        whole_bytes, rest = divmod(bits, 8)
        ones += _popcount(self._bytes(whole_bytes))
        if rest:
            ones += (self._bytes(1)[0] & (1 << rest) - 1).bit_count()
        return ones


def secret_key() -> str:
    """Return 256 random bits, in hexadecimal: a key that names are hashed with, and that is never published.

    It comes from the operating system also where a release is seeded, and may be made while a release is paid.
    """
    order.check_may_make_secrets()
    return os.urandom(SECRET_BYTES).hex()


def _exp_minus(exponent: Fraction) -> Chance:
    # Irrational for every rational exponent but 0, so its digits settle.
    return Chance(lambda bits: exp_minus(exponent, bits))


def _popcount(block: bytes) -> int:
    padded = block + bytes(-len(block) % 8)
    return int(np.bitwise_count(np.frombuffer(padded, dtype=np.uint64)).sum(dtype=np.int64))


def random_name() -> str:
    """A random name that no other run has, for a run that may go on in another process."""
    return os.urandom(16).hex()


def fresh_seed() -> int:
    """A seed that nobody knows, for code that must draw the same numbers twice; it must stay secret."""
    return int.from_bytes(os.urandom(6), "little")


def _seeded_bytes(seed: int) -> Callable[[int], bytes]:
    stream = np.random.Generator(np.random.Philox(seed))
    return stream.bytes


@lru_cache(maxsize=256)
def _boundaries(noise: Survival, start: int, bits: int, least_bits: int) -> tuple[int, ...]:
    """Return the first digits of Pr[Z >= start+j | Z >= start], j = 1, 2, ..., down to 2^least_bits units.

    The one boundary that falls below is kept too: it marks where the table ends.
    """
    guard = WORD
    while True:
        table = []
        for low, high in noise.survival(start, bits + guard):
            if low >> guard != high - 1 >> guard:
                break
            table.append(low >> guard)
            if table[-1] < 1 << least_bits:
                return tuple(table)
        guard *= 2


@lru_cache(maxsize=16)
def _opendp_sampler(noise: Noise) -> Any:
    """Return OpenDP's sampler of this noise; its float scale becomes the same rational number as ours."""
    _check_opendp()
    import numpy.ctypeslib  # noqa: F401  (OpenDP looks for it at the first draw, which is after the charge)

    # opendp.prelude would import ten times as much.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    if isinstance(noise, Laplace):
        return make_laplace(integers, l1_distance(T="i64"), scale=noise.scale)
    return make_gaussian(integers, l2_distance(T="f64"), scale=noise.sigma)


def _check_opendp() -> None:
    from importlib.metadata import version

    installed = version("opendp")
    if _release_number(installed) < FIRST_UNBIASED_OPENDP:
        least = ".".join(map(str, FIRST_UNBIASED_OPENDP))
        raise ResourceError(
            f"opendp must be at least {least}, got {installed}: earlier noise is biased (its issue 2638); "
            f"run: pip install 'opendp>={least}'"
        )


def _release_number(version: str) -> tuple[int, ...]:
    digits = ("".join(c for c in part if c.isdigit()) for part in version.split(".")[:3])
    return tuple(int(part) if part else 0 for part in digits)
