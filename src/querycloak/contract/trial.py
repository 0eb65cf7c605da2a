"""A method, tried once on a log: its release, its folder, its charge, and what was charged at its first draw."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from querycloak.audits.guarantees.user_rows import read_for
from querycloak.engines import Engine, connect
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Method
from querycloak.privacy.ledger.accounts import Account
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release

USERS = 60
PAIRS = 40
HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"
CONCEPTS = ("water polo", "tennis", "asthma", "arthritis", "golf", "chess", "marathon", "measles", "rugby", "boxing")
RARE_QUERY, RARE_URL = "letter to aunt zerlinda", "http://zerlinda-quinsberry.example/letters"
"""Queries and clicks of one user alone."""
SAYS_EVERYTHING_TWICE = 7
Row = tuple[int, str, str, str]


def user_name(user: int) -> str:
    """Name of a user in the log: a text that stands nowhere else."""
    return f"account-417{user:02}749"


SECRETS = (*map(user_name, range(USERS)), RARE_QUERY, RARE_URL)
"""Texts that must not stand in a release, unless the mechanism put them into a row."""


def small_log(*, reversed_rows: bool = False) -> str:
    """A log in AOL's form, or the same rows in another order.

    Pair i of 40 is clicked by users i, i+1, ..., so that numbers of users are all different. Each user then asks for
    some concepts one after another and clicks on others, all at one time. One user says everything twice.
    """
    lines = [line for user in range(USERS) for line in _lines(user)]
    return "\n".join([HEADER, *(reversed(lines) if reversed_rows else lines)]) + "\n"


def _lines(user: int) -> list[str]:
    rows: list[Row] = [(12, f"{at:02}", f"query {at}", f"http://{at}.example/") for at in range(min(user + 1, PAIRS))]
    rows += [(13, f"{at:02}", f"{CONCEPTS[(user + at) % 10]} rules", "") for at in range(1 + user % 4)]
    rows += [(15, "00", CONCEPTS[at % 10], f"http://{at}.sport.example/") for at in range(user % 7)]
    rows += [(17, "30", RARE_QUERY, RARE_URL)] if user == USERS - 1 else []
    repeats = 2 if user == SAYS_EVERYTHING_TWICE else 1
    return [
        f"{user_name(user)}\t{query}\t2006-03-01 {hour}:{minute}:00\t{'1' if url else ''}\t{url}"
        for hour, minute, query, url in rows * repeats
    ]


POPULATION = "people"
SEED = 11
_PLENTY = 1e6, 0.999


@dataclass(frozen=True)
class Outcome:
    """Remains of a release."""

    release: Release
    folder: Path
    account: Account | None
    charges_at_first_draw: int | None
    """None if nothing was drawn."""
    described_before: dict[str, Any]

    @property
    def card(self) -> dict[str, Any]:
        """The card that was written."""
        card: dict[str, Any] = json.loads((self.folder / "card.json").read_text(encoding="utf-8"))
        return card


class Trial:
    """One method on one log. Rules look at what it gave; what several of them need is made once.

    log: the text of a log in AOL's form; without one, a small log that has something for most methods.
    engine: DuckDB unless given; the caller closes one that is given. also_on: an engine that must give the same.
    """

    def __init__(
        self, method: Method, *, log: str | None = None, engine: Engine | None = None, also_on: Engine | None = None
    ) -> None:
        self.method, self.also_on = method, also_on
        self._rows, self._engine, self._own = log, engine, engine is None

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything that was made."""
        if self._own and self._engine is not None:
            self._engine.close()
            self._engine = None
        if "_temporary" in self.__dict__:
            self._temporary.cleanup()

    @cached_property
    def _temporary(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="querycloak-contract-")

    @property
    def folder(self) -> Path:
        """Folder of this trial; only its owner may enter."""
        return Path(self._temporary.name)

    @property
    def engine(self) -> Engine:
        """Engine of the trial."""
        if self._engine is None:
            self._engine = connect("duckdb")
        return self._engine

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts of the log that must not come out, unless in a row; of a log of your own none are known."""
        return SECRETS if self._rows is None else ()

    @cached_property
    def log_file(self) -> Path:
        """The log."""
        return self._written("log.tsv", small_log() if self._rows is None else self._rows)

    @cached_property
    def reordered_file(self) -> Path:
        """The same rows in another order."""
        if self._rows is None:
            return self._written("reordered.tsv", small_log(reversed_rows=True))
        header, *rows = self._rows.splitlines()
        return self._written("reordered.tsv", "\n".join([header, *reversed(rows)]) + "\n")

    def _written(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def log(self, path: Path | None = None) -> SearchLog:
        """The log, or another file, to be read anew, with the attributes that the method asks for."""
        return read_for(self.method, path or self.log_file, self.engine)

    @property
    def is_charged(self) -> bool:
        """True if a ledger can account for this method: it counts what is spent on each user."""
        proven = self.method.proven()
        return proven.kind == "syntactic" or proven.unit == "user"

    def ledger(self, name: str, epsilon: float = _PLENTY[0], delta: float = _PLENTY[1]) -> Ledger:
        """A ledger of its own, with this limit."""
        made = Ledger(self.folder / f"{name}.sqlite")
        made.set_limit(POPULATION, epsilon, delta)
        return made

    @cached_property
    def outcome(self) -> Outcome:
        """The release of the log from a seed, charged where a ledger can, and saved."""
        described = self.method.describe()
        ledger = self.ledger("ledger") if self.is_charged else None
        watched = _Watched(lambda: 0 if ledger is None else len(ledger.show(POPULATION)[0].charges))
        population = None if ledger is None else POPULATION
        release = self.method.release(self.log(), ledger=ledger, population=population, randomness=watched)
        saved = release.save(self.folder / "released")
        account = None if ledger is None else ledger.show(POPULATION)[0]
        return Outcome(release, saved.folder, account, watched.seen, described)

    @cached_property
    def reordered(self) -> Release:
        """The release of the same rows in another order, from the same seed."""
        return self.again(self.reordered_file)

    def again(self, path: Path | None = None, engine: Engine | None = None) -> Release:
        """The same release from the same seed, perhaps of another file or on another engine."""
        log = self.log(path)
        return self.method.release(log if engine is None else log.on(engine), randomness=Randomness(SEED))


class _Watched(Randomness):
    """Seeded, and looks once, when it is first drawn from."""

    def __init__(self, look: Callable[[], int]) -> None:
        super().__init__(SEED)
        self.seen: int | None = None
        drawn = self._bytes

        def watching(size: int) -> bytes:
            if self.seen is None:
                self.seen = look()
            return drawn(size)

        self._bytes = watching
