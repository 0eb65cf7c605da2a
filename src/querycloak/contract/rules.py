"""The rules of the contract. Each looks at one trial and raises `CheckFailed`, which says what is broken."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

from querycloak.audits.attacks.folder_leaks import leaks_in, leaks_in_folder
from querycloak.contract.killed import killed_after_the_charge
from querycloak.contract.trial import POPULATION, Trial
from querycloak.engines import Engine
from querycloak.errors import BudgetRefused, CheckFailed, ParameterError, QuerycloakError
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Method
from querycloak.methods.option import options_of
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.releases.loading import load
from querycloak.releases.release import Release, plain_mapping

Rule = Callable[[Trial], None]
DESCRIBED = ["method", "variant", "parameters", "claimed", "proven"]
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def check(
    method: Method, *, log: str | None = None, engine: Engine | None = None, also_on: Engine | None = None
) -> None:
    """Check every rule; raise `CheckFailed` with all that are broken.

    log: the text of a log in AOL's form, if the small log has nothing for the method. also_on: an engine that must
    release the same as DuckDB, such as `connect("spark")`.
    """
    with Trial(method, log=log, engine=engine, also_on=also_on) as trial:
        broken = _problems("releases", _releases, trial) or [
            problem for name, rule in RULES.items() for problem in _problems(name, rule, trial)
        ]
    if broken:
        raise CheckFailed(f"{method.name} breaks the contract of methods. " + "; ".join(broken))


def _problems(name: str, rule: Rule, trial: Trial) -> list[str]:
    try:
        rule(trial)
    except QuerycloakError as problem:
        return [f"{name}: {problem}"]
    return []


def _releases(trial: Trial) -> None:
    """A release that fails would make every rule fail."""
    _ = trial.outcome


def is_a_frozen_value(trial: Trial) -> None:
    """Nobody can change it, and a copy of it is equal."""
    method = trial.method
    if not dataclasses.is_dataclass(method):
        _broken("a method must be a dataclass: @dataclass(frozen=True, kw_only=True)")
    for each in dataclasses.fields(method):
        try:
            # As an assignment would: object.__setattr__ would change it all the same.
            type(method).__setattr__(method, each.name, None)
        except dataclasses.FrozenInstanceError:
            continue
        _broken(f"a method must be frozen, but {each.name} can be changed: @dataclass(frozen=True, kw_only=True)")
    if dataclasses.replace(method) != method:
        _broken("a copy of a method must be equal to it")


def says_what_it_is(trial: Trial) -> None:
    """It has a name that can be typed, a summary of one line, and help for every option."""
    method = trial.method
    if not _NAME.fullmatch(method.name):
        _broken(f"name must be words of small letters joined by hyphens, got {method.name!r}")
    if not method.summary.strip() or "\n" in method.summary:
        _broken("summary must be one line that says what the method does")
    for each in options_of(type(method)):
        if not each.help.strip():
            _broken(f"option {each.name} must have help")


def promises_by_its_parameters_alone(trial: Trial) -> None:
    """Guarantee and parameters are plain, survive JSON, and are the same for a copy and at each call."""
    method = trial.method
    described = method.describe()
    if list(described) != DESCRIBED:
        _broken("describe() must not be changed")
    plain_mapping("parameters", described["parameters"])
    read_back = json.loads(json.dumps(described, allow_nan=False))
    if read_back != described:
        _broken("parameters must be the same after they were written as JSON and read: texts, numbers, lists, None")
    for promised, written in ((method.proven(), read_back["proven"]), (method.claimed(), read_back["claimed"])):
        if promised is not None and Guarantee.from_json(written) != promised:
            _broken("a guarantee must be the same after it was written as JSON and read")
    if dataclasses.replace(method).describe() != described or method.describe() != described:
        _broken("the same parameters must promise the same, whenever somebody asks")
    if trial.outcome.described_before != method.describe():
        _broken("what is promised must not depend on the log: it is different after a release")


def releases_what_it_declares(trial: Trial) -> None:
    """Something comes out, in tables of declared columns, in an order that reveals nothing about the log."""
    release = trial.outcome.release
    unknown = sorted(set(trial.method.reach()) - set(release.tables))
    if unknown:
        _broken(f"reach() must speak of tables that are released, and {unknown[0]} is not")
    rows = 0
    for kind in release.tables:
        table = release.table(kind)  # in its declared columns and types, or it raises
        rows += table.num_rows
        _check_order(kind, table.to_pylist())
    if rows == 0:
        _broken("nothing came out of the log, so nothing was checked: give a larger budget, or a log of your own")


def _check_order(kind: str, rows: list[dict[str, Any]]) -> None:
    keys: list[tuple[Any, ...]] = [
        tuple(_sortable(value) for name, value in row.items() if name != "count") for row in rows
    ]
    if rows and "count" in rows[0]:
        counts = [1 if row["count"] is None else row["count"] for row in rows]
        keys = [(-count, *key) for count, key in zip(counts, keys, strict=True)]
    elif rows:
        keys = [key[:2] for key in keys]  # by user, then by query
    if keys != sorted(keys):
        order = "by count, the highest first, then by key" if rows and "count" in rows[0] else "by user, then by query"
        _broken(f"rows of {kind} must stand {order}: another order may tell something about the log")


def _sortable(value: Any) -> tuple[Any, ...]:
    """Sort key of a value: None first, then shorter sequences before longer ones."""
    return (value is not None, len(value) if isinstance(value, list) else 0, value)


def _is_settled(card: dict[str, Any], described: dict[str, Any]) -> bool:
    """True if the draw chose a parameter that was open."""
    given = described["parameters"]
    return any(value in (None, "auto") and card["parameters"].get(name) != value for name, value in given.items())


def _is_the_promise(written: Any, promised: Any, *, settled: bool) -> bool:
    """True if a card holds the promise; what is unprotected may be stated for the setting that the draw chose."""
    if not settled or not isinstance(written, dict) or not isinstance(promised, dict):
        return bool(written == promised)
    same = {**written, "unprotected": None} == {**promised, "unprotected": None}
    return same and len(written["unprotected"]) >= len(promised["unprotected"])


def writes_a_card_of_what_it_promised(trial: Trial) -> None:
    """The card says what `describe` says, and what the draw chose where that was open; it can be loaded."""
    outcome = trial.outcome
    card, described = outcome.card, outcome.described_before
    for key in ("method", "variant", "claimed"):
        if card[key] != described[key]:
            _broken(f"the card's {key} must be what describe() says")
    if not _is_the_promise(card["proven"], described["proven"], settled=_is_settled(card, described)):
        _broken("the card's proven must be what describe() says")
    for name, value in described["parameters"].items():
        if name not in card["parameters"] or (value not in (None, "auto") and card["parameters"][name] != value):
            _broken(f"the card's parameter {name} must be what describe() says")
    if not card["seeded"] or "NOT PRIVATE" not in card["warnings"][0]:
        _broken("the card must say that a release from a seed is not private")
    loaded = load(outcome.folder)
    if loaded.proven != outcome.release.proven or set(loaded.tables) != set(outcome.release.tables):
        _broken("a release must be the same when it is loaded")


def pays_before_it_draws(trial: Trial) -> None:
    """One charge, of what is proven, is in the ledger at the first draw; it is complete when the release is saved."""
    outcome = trial.outcome
    if outcome.account is None:
        return
    if outcome.charges_at_first_draw not in (None, 1):
        _broken(f"one charge must be in the ledger at the first draw, there were {outcome.charges_at_first_draw}")
    charges = outcome.account.charges
    if [charge.status for charge in charges] != ["released"]:
        _broken("one charge with a release must be in the ledger when the release is saved")
    if charges[0].guarantee != trial.method.proven():
        _broken("what is charged must be what is proven")


def reads_nothing_if_it_is_refused(trial: Trial) -> None:
    """A budget that is too small, or an unknown population, is refused before the log is read."""
    gone = trial.folder / "gone.tsv"
    gone.write_bytes(trial.log_file.read_bytes())
    log = trial.log(gone)
    gone.unlink()  # reading it now fails
    ledger = trial.ledger("refusing", epsilon=1e-9, delta=0)
    _refused(trial.method, log, ledger, "nobody", ParameterError)
    if trial.method.proven().kind != "syntactic":  # which costs nothing, so that no limit refuses it
        _refused(trial.method, log, ledger, POPULATION, BudgetRefused if trial.is_charged else ParameterError)
    if ledger.show(POPULATION)[0].charges:
        _broken("what is refused must not be charged")


def _refused(method: Method, log: SearchLog, ledger: Ledger, population: str, expected: type[QuerycloakError]) -> None:
    try:
        method.release(log, ledger=ledger, population=population)
    except expected:
        return
    except QuerycloakError:
        pass  # the log could not be read: it was not refused before
    _broken("what the ledger does not allow must be refused before the log is read")


def draws_from_the_seed_alone(trial: Trial) -> None:
    """The same seed gives the same tables."""
    first = trial.outcome.release
    if _difference(first, trial.reordered) is not None:  # else the next rule, which says more, holds
        _same(first, trial.again(), "the same seed must give the same tables: draw from what draw is given")


def does_not_depend_on_the_order_of_rows(trial: Trial) -> None:
    """The same rows in another order give the same tables."""
    _same(trial.outcome.release, trial.reordered, "the order of the log's rows must not matter: break ties by value")


def is_the_same_on_another_engine(trial: Trial) -> None:
    """A second engine, if given, gives the same tables from the same seed."""
    if trial.also_on is not None:
        other = trial.again(engine=trial.also_on)
        _same(trial.outcome.release, other, f"{trial.also_on.name} must give the same tables as {trial.engine.name}")


def tells_nothing_outside_its_tables(trial: Trial) -> None:
    """No user's name is anywhere; no rare query or url is outside of the rows that were released."""
    outcome = trial.outcome
    places = leaks_in_folder(outcome.folder, trial.secrets) + leaks_in(repr(outcome.release), trial.secrets, "repr()")
    in_rows = {kind: str(outcome.release.table(kind).to_pylist()).lower() for kind in outcome.release.tables}
    for leak in places:
        kind, is_user = Path(leak.place).stem, leak.secret.startswith("account-")
        if is_user or leak.secret not in in_rows.get(kind, ""):
            what = "a user's name" if is_user else "a rare query or url"
            _broken(f"{what} of the log stands in {leak.place}, where nothing of the log may stand")


def stays_charged_if_it_is_killed(trial: Trial) -> None:
    """Killed between payment and saving, it leaves one charge without a release, and no folder."""
    if not trial.is_charged:
        return
    folder = trial.folder / "killed"
    folder.mkdir()
    (problem,) = killed_after_the_charge([trial.method], trial.log_file, folder)
    if problem is not None:
        _broken(f"killed after it was charged, a release must leave the charge alone: {problem}")


def _same(first: Release, second: Release, rule: str) -> None:
    different = _difference(first, second)
    if different is not None:
        _broken(f"{rule}; {different} differs")


def _difference(first: Release, second: Release) -> str | None:
    """A table that is not the same in both."""
    kinds = [*first.tables, *(kind for kind in second.tables if kind not in first.tables)]
    both = (kind for kind in kinds if kind in first.tables and kind in second.tables)
    only = (kind for kind in kinds if kind not in first.tables or kind not in second.tables)
    return next(only, None) or next((kind for kind in both if first.table(kind) != second.table(kind)), None)


def _broken(rule: str) -> NoReturn:
    raise CheckFailed(rule)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.__name__: rule
        for rule in (
            is_a_frozen_value,
            says_what_it_is,
            promises_by_its_parameters_alone,
            releases_what_it_declares,
            writes_a_card_of_what_it_promised,
            pays_before_it_draws,
            reads_nothing_if_it_is_refused,
            draws_from_the_seed_alone,
            does_not_depend_on_the_order_of_rows,
            is_the_same_on_another_engine,
            tells_nothing_outside_its_tables,
            stays_charged_if_it_is_killed,
        )
    }
)
