"""Checks of single parameters; each error names the parameter, the rule, the value and the way out."""

import math
import os
import re
from collections.abc import Iterable
from numbers import Integral, Real
from pathlib import Path
from typing import NoReturn

from querycloak.errors import ParameterError
from querycloak.sentence import Parameter, Sentence

LARGEST_BOUND = 1_000_000
LEAST_EPSILON, LARGEST_EPSILON, LEAST_DELTA = 1e-9, 1000.0, 1e-100
"""Limits of a budget. At epsilon 10 odds already grow 22,000-fold; above 1,000 the formulas take long."""


def refusal(name: str, rule: str | Sentence, value: object, way_out: str | Sentence) -> ParameterError:
    """Return the error for a bad parameter, in the one form that all have; None is a value that was not given."""
    parts = {"name": Parameter(name), "rule": rule, "value": value, "way_out": way_out}
    message = Sentence("{name} must be {rule}, got {value!r}; {way_out}", **parts)
    if value is None:
        message = Sentence("{name} must be given, {rule}; {way_out}", **parts)
    return ParameterError(message, parameter=name, rule=rule, value=value, way_out=way_out)


def refuse(name: str, rule: str | Sentence, value: object, way_out: str | Sentence) -> NoReturn:
    """Raise the error of `refusal`."""
    raise refusal(name, rule, value, way_out)


def checked_digest(name: str, given: str) -> str:
    """Return the digits of a SHA-256 as we write them; `sha256:` may stand before them."""
    digits = given.strip().lower().removeprefix("sha256:")
    if not re.fullmatch("[0-9a-f]{64}", digits):
        refuse(name, "64 hexadecimal digits", given, "copy the whole digest, as it was printed")
    return digits


def of_kind(name: str, value: object, kind: type | tuple[type, ...], rule: str, way_out: str | Sentence) -> None:
    """Refuse a value of another kind; its content is not shown, because it may be private."""
    if not isinstance(value, kind):
        raise _of_another_kind(name, value, rule, way_out)


def texts_of(name: str, value: object, way_out: str | Sentence) -> tuple[str, ...]:
    """Return a list of texts; a single text is none."""
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise _of_another_kind(name, value, "a list of texts", way_out)


def path_of(name: str, value: object, way_out: str | Sentence = "a path is a text or a pathlib.Path") -> Path:
    """Return value as a path if it is one."""
    if isinstance(value, str | os.PathLike):
        return Path(value)
    raise _of_another_kind(name, value, "a path", way_out)


def _of_another_kind(name: str, value: object, rule: str, way_out: str | Sentence) -> ParameterError:
    if value is None:
        return refusal(name, rule, None, way_out)
    parts = {"name": Parameter(name), "rule": rule, "got": type(value).__name__, "way_out": way_out}
    message = Sentence("{name} must be {rule}, got a value of type {got}; {way_out}", **parts)
    return ParameterError(message, parameter=name, rule=rule, value=type(value).__name__, way_out=way_out)


def one_of(name: str, value: object, accepted: Iterable[str], way_out: str | Sentence = "choose one of these") -> None:
    """Refuse a value that is none of those accepted."""
    listed = tuple(accepted)
    if value not in listed:
        refuse(name, f"one of {', '.join(listed)}", value, way_out)


def number_above_zero(name: str, value: object, way_out: str | Sentence, *, most: float = math.inf) -> float:
    """Return value as a float if it is a finite real number above zero and at most `most`."""
    number = _finite(name, value, "a finite number above 0", way_out)
    if number <= 0:
        refuse(name, "a finite number above 0", value, way_out)
    if number > most:
        refuse(name, f"at most {most:,.0f}", value, way_out)
    return number


def checked_epsilon(value: object, way_out: str | Sentence = "give a number such as 1") -> float:
    """Return the epsilon of one release if it is within the limits; the sum of several may exceed them."""
    number = number_above_zero("epsilon", value, way_out, most=LARGEST_EPSILON)
    if number < LEAST_EPSILON:
        refuse("epsilon", f"at least {LEAST_EPSILON:g}", value, way_out)
    return number


def checked_delta(value: object, way_out: str | Sentence) -> float:
    """Return the delta of one release if it is within the limits."""
    number = share("delta", value, way_out)
    if number < LEAST_DELTA:
        refuse("delta", f"at least {LEAST_DELTA:g}", value, way_out)
    return number


def share(name: str, value: object, way_out: str | Sentence) -> float:
    """Return value as a float if it lies strictly between 0 and 1."""
    rule = "a number above 0 and below 1"
    number = _finite(name, value, rule, way_out)
    if not 0 < number < 1:
        refuse(name, rule, value, way_out)
    return number


def whole(name: str, value: object, way_out: str | Sentence, *, least: int, most: int = 2**53) -> int:
    """Return value as an int if it is an integer from least to most."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        refuse(name, "a whole number", value, way_out)
    if not least <= int(value) <= most:
        rule = f"at least {least}" if int(value) < least else f"at most {most:,}"
        refuse(name, rule, value, way_out)
    return int(value)


def natural(name: str, value: object, way_out: str | Sentence, *, most: int = 2**53) -> int:
    """Return value as an int if it is an integer of at least 1."""
    return whole(name, value, way_out, least=1, most=most)


def checked_bound(max_keys_per_user: object) -> int:
    """Return the contribution bound, how many keys of one user count, if it is one."""
    return natural("max_keys_per_user", max_keys_per_user, "say how many keys one user may add to", most=LARGEST_BOUND)


def _finite(name: str, value: object, rule: str | Sentence, way_out: str | Sentence) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        refuse(name, rule, value, way_out)
    try:
        number = float(value)
    except OverflowError:
        refuse(name, rule, value, way_out)
    if not math.isfinite(number):
        refuse(name, rule, value, way_out)
    return number
