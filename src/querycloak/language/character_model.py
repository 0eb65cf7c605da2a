"""A public model of characters: the fallback for words and queries that a release does not hold.

Trigrams of characters from public English words and word pairs, interpolated after Witten and Bell (1991). It knows no
log, so it is the same for every release, and every text has a finite number of bits.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from querycloak.text.english import public_phrases

FloatArray = NDArray[np.float64]
LETTERS = " abcdefghijklmnopqrstuvwxyz0123456789.-'/&"
_EDGE, _OTHER = len(LETTERS), len(LETTERS) + 1
_SIZE = len(LETTERS) + 2
_OTHER_BITS = math.log2(0x110000)
"""Any other character: one of all code points, all alike."""
_UNIFORM = 0.05
"""Share of the uniform law: public phrases hold hardly any digit or sign."""


@lru_cache(maxsize=1 << 16)
def character_bits(text: str) -> float:
    """Return the bits of a text and its end."""
    codes_of, trigram_bits = _codes(), _trigram_bits()
    bits, first, second = 0.0, _EDGE, _EDGE
    for code in (*(codes_of.get(letter, _OTHER) for letter in text), _EDGE):
        bits += trigram_bits[(first * _SIZE + second) * _SIZE + code]
        bits += _OTHER_BITS if code == _OTHER else 0.0
        first, second = second, code
    return bits


@lru_cache(maxsize=1)
def _codes() -> dict[str, int]:
    return {letter: code for code, letter in enumerate(LETTERS)}


@lru_cache(maxsize=1)
def _trigram_bits() -> list[float]:
    """Return bits of each trigram; a list, because texts are short and an array answers a single place slowly."""
    bits: list[float] = (-np.log2(_trigrams())).ravel().tolist()
    return bits


@lru_cache(maxsize=1)
def _trigrams() -> FloatArray:
    """Return Pr[third | first, second], interpolated with bigrams, single characters and the uniform law."""
    phrases = public_phrases()
    counts = np.log2(1.0 + phrases["count"].to_numpy())
    table = np.full(0x110000, _OTHER, np.int64)
    for letter, code in _codes().items():
        table[ord(letter)] = code
    edge = chr(0xE000)
    table[ord(edge)] = _EDGE
    texts = [f"{edge}{edge}{phrase}{edge}" for phrase in phrases["phrase"].to_pylist()]
    letters = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    codes = table[letters]
    weights = np.repeat(counts, [len(text) for text in texts])
    places = (codes[:-2] * _SIZE + codes[1:-1]) * _SIZE + codes[2:]
    triples: FloatArray = np.bincount(places, weights=weights[2:], minlength=_SIZE**3).astype(np.float64)
    triples = triples.reshape(_SIZE, _SIZE, _SIZE)
    triples[:, _EDGE, _EDGE] = triples[:, :, _OTHER] = 0  # windows that span two phrases; what is spelled by code point
    uniform = np.full(_SIZE, 1 / _SIZE)
    single = _interpolated(triples.sum((0, 1)), uniform)
    pairs = _interpolated(triples.sum(0), single)
    law = _interpolated(triples, pairs)
    mixed: FloatArray = (1 - _UNIFORM) * law + _UNIFORM / _SIZE
    return mixed


def _interpolated(counts: FloatArray, shorter: FloatArray) -> FloatArray:
    """Return Witten and Bell's interpolation of counts with a law of shorter contexts."""
    total = counts.sum(-1, keepdims=True)
    types = np.maximum((counts > 0).sum(-1, keepdims=True), 1)
    law: FloatArray = (counts + types * shorter) / (total + types)
    return law
