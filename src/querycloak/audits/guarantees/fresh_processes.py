"""Two processes must not draw the same noise: otherwise a second run could show the noise of the first.

`python -m querycloak.audits.guarantees.fresh_processes` is one of them: it reads a method and a log from stdin and
prints one digest of the release. A method goes to another process as JSON (`spelled`, `made_from`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from typing import Any

from querycloak.audits.guarantees.exact_test import ExactFinding
from querycloak.audits.guarantees.mechanism import Outcomes
from querycloak.audits.guarantees.user_rows import SessionRows, log_text, plans_of, user_rows
from querycloak.errors import EngineError
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.method import Method
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.synthetic.method import Synthetic
from querycloak.papers.hong2012 import PaperOptimal
from querycloak.privacy.sampling.noise import Noise

FRESH_PROCESSES = "fresh processes"
"""Name of this instrument."""

_SURE = 14.0
"""Two honest processes agree with a chance of at most e^-14, if the noise of their counts is known."""
FALSE_ALARM = 1e-4
"""Two honest processes agree with a chance below this in any case."""
_TRIED = 4_000
_MOST_DRAWS = 2_000
_MOST_KEYS = 400
_KEYS_OF_UNKNOWN_NOISE = 20
_SEARCHES = 60
_REACH = 40


def fresh_processes(method: Method) -> list[ExactFinding]:
    """Finding on two processes that release one log: refuted if their releases are equal.

    Empty if honest processes might agree with probability FALSE_ALARM or more, or if no other process can make the
    method, because its class stands in a notebook.
    """
    if not can_be_spelled(method):
        return []
    log, draws = _telling_log(method), 1
    if not isinstance(method, Semantic | KeysMethod | QueryPool | Optimal | Synthetic):  # of unknown noise
        log = log_text(_shared_by_many(method, _KEYS_OF_UNKNOWN_NOISE))
        draws = _draws_that_differ(method, log)
    if log is None or draws > _MOST_DRAWS:
        return []
    given = {"method": spelled(method), "log": log, "draws": draws}
    equal = int(len({_digest(given) for _ in range(2)}) == 1)
    statement = "two fresh processes released " + ("the very same" if equal else "different numbers")
    statement += f" (by chance: below 1 in {round(1 / FALSE_ALARM):,})"
    return [ExactFinding(FRESH_PROCESSES, "one log", bool(equal), statement, "release", "equal outputs", equal, 0)]


def _draws_that_differ(method: Method, log: str) -> int:
    """The number of draws that two honest processes have in common with a chance below FALSE_ALARM.

    The chance of two equal draws is bounded by pairs of draws in this process, with half of FALSE_ALARM as the error
    of that bound (Clopper and Pearson); the other half is left for the draws themselves.
    """
    from scipy.special import betaincinv

    from querycloak.audits.guarantees.method_mechanism import MethodMechanism

    with MethodMechanism(method) as mechanism:
        outputs = _outputs(mechanism.outcomes(log, 2 * _TRIED))
    agree = sum(one == other for one, other in zip(outputs[::2], outputs[1::2], strict=True))
    if agree == _TRIED:
        return _MOST_DRAWS + 1
    most = float(betaincinv(agree + 1, _TRIED - agree, 1 - FALSE_ALARM / 2))
    return math.ceil(math.log(FALSE_ALARM / 2) / math.log(most))


def _outputs(outcomes: Outcomes) -> list[tuple[tuple[int, float], ...]]:
    """Published output of each run."""
    runs: list[list[tuple[int, float]]] = [[] for _ in range(outcomes.runs)]
    entries = zip(outcomes.run.tolist(), outcomes.name.tolist(), outcomes.value.tolist(), strict=True)
    for run, name, value in entries:
        runs[run].append((name, value))
    return [tuple(sorted(each)) for each in runs]


def _telling_log(method: Method) -> str | None:
    """A log of which no two releases are alike; None if that takes too many keys."""
    if isinstance(method, Semantic):
        return log_text(f"u{user}\tweather\t2006-03-01 00:00:00\t\t" for user in range(_SEARCHES))
    if isinstance(method, KeysMethod) and method.counts == "none":
        return _keys_in_the_balance(method)
    keys = math.ceil(_SURE / -math.log(max(map(_collision, _noises(method)), default=0.5)))
    if keys > _MOST_KEYS:
        return None
    return log_text(_shared_by_many(method, keys))


def _shared_by_many(method: Method, keys: int) -> list[str]:
    """Rows of users who hold this number of keys; each key has enough users to come out."""
    users = user_rows(method)
    names, number = [f"shared {place}" for place in range(keys)], 2 * users.enough + 8
    return [row for name in names for user in range(number) for row in users.rows(f"{name} {user}", [name])]


def _keys_in_the_balance(method: KeysMethod) -> str | None:
    """Keys that come out in about every second run under any plan; for releases without counts."""
    users = user_rows(method)
    if isinstance(users, SessionRows):
        return None  # whose sessions hold several keys, so that chances are not those of one
    rows: list[str] = []
    for place, plan in enumerate(plans_of(method)):
        route = plan.route()
        chances = {number: route.comes_out(number * route.most) for number in range(1, 2 * plan.enough_users + 1)}
        number, chance = min(chances.items(), key=lambda each: abs(each[1] - 0.5))
        keys = math.ceil(_SURE / -math.log(min(chance**2 + (1 - chance) ** 2, 1 - 1e-12)))
        if keys > _MOST_KEYS:
            return None
        names = [f"even {place} {key}" for key in range(keys)]
        rows += [row for name in names for user in range(number) for row in users.rows(f"{name} {user}", [name])]
    return log_text(rows)


def _noises(method: Method) -> list[Noise]:
    """The noise of published counts; of all plans that may be chosen. Nothing where it is not known."""
    if isinstance(method, QueryPool):
        return [method.noises["queries"]]
    if isinstance(method, Optimal):
        return [] if isinstance(method, PaperOptimal) else [method.plan.count_noise]
    if isinstance(method, Synthetic):
        return [plan.route().published_noise or plan.noise for plan in method.plan.selected.values()]
    if not isinstance(method, KeysMethod):
        return []
    return [plan.route().published_noise or plan.noise for plan in plans_of(method)]


def _collision(noise: Noise) -> float:
    """The chance that two draws are equal."""
    reach = math.ceil(_REACH * noise.size)
    return min(1 - 1e-12, sum(noise.pmf(z).up() ** 2 for z in range(-min(reach, 400), min(reach, 400) + 1)))


def _digest(given: object) -> str:
    done = started("querycloak.audits.guarantees.fresh_processes", given)
    digest = done.communicate()[0]
    if done.returncode or not digest:
        raise EngineError("a process that was to release a made-up log failed; this is a bug in querycloak")
    return digest


def digest_of_a_release(given: str) -> str:
    """The digest of a release of the given log by the given method."""
    from querycloak.audits.guarantees.method_mechanism import MethodMechanism
    from querycloak.audits.guarantees.runs import in_memory

    read = json.loads(given)
    method = made_from(read["method"])
    digest = hashlib.sha256()
    with MethodMechanism(method) as mechanism:
        if read["draws"] > 1:
            digest.update(repr(_outputs(mechanism.outcomes(read["log"], read["draws"] - 1))).encode())
        release = method.release(mechanism.opened(read["log"]))
        for name, table in sorted(release.tables.items()):
            columns = [column for column in in_memory(table).column_names if column != "user"]
            digest.update(f"{name} {in_memory(table).select(columns).to_pylist()}".encode())
    return digest.hexdigest()


def spelled(method: Method) -> dict[str, Any]:
    """A method as JSON for another process: its class and its given options."""
    kind = type(method)
    options = {each.name: vars(method)[each.name] for each in fields(method) if each.init}
    return {"module": kind.__module__, "name": kind.__qualname__, "options": options}


def can_be_spelled(method: Method) -> bool:
    """True if another process can make it: not if its class stands in a notebook or within a function."""
    kind = type(method)
    home = sys.modules.get(kind.__module__)
    if home is None or kind.__module__ == "__main__" or vars(home).get(kind.__qualname__) is not kind:
        return False
    try:
        json.dumps(spelled(method))
    except (TypeError, ValueError):
        return False
    return True


def made_from(spelling: dict[str, Any]) -> Method:
    """The method of a spelling."""
    made: Method = vars(import_module(spelling["module"]))[spelling["name"]](**spelling["options"])
    return made


def started(module: str, given: object) -> subprocess.Popen[str]:
    """`python -m module` with this JSON on its stdin; it sees the same packages."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError), process.stdin:  # a process that failed says so by its exit code
            process.stdin.write(json.dumps(given))
        process.stdin = None
    return process


if __name__ == "__main__":
    sys.stdout.write(digest_of_a_release(sys.stdin.read()))
