"""The studio itself: one owner's form, what it leads to, and the work that buttons start. No HTTP here."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Context
from pathlib import Path
from typing import Any

from querycloak.errors import BudgetRefused, InputError, QuerycloakError
from querycloak.files.private_file import private_file
from querycloak.logs.searchlog import OnStep
from querycloak.methods.method import Method
from querycloak.pages.officer_answers import UNITS
from querycloak.pages.shown_text import time_left
from querycloak.privacy.explanation import explain
from querycloak.privacy.ledger.ledger import Account, Ledger
from querycloak.privacy.sampling.exact import shown_up
from querycloak.releases.about_file import PRIVATE as TO_SIGN
from querycloak.releases.about_file import TITLES
from querycloak.signing.signoff import AFTER_EVIDENCE, SignedOff
from querycloak.studio.studio_form import EXAMPLE_USERS, MADE, StudioForm
from querycloak.studio.tradeoff_picture import lettered, pictures, shown_rows
from querycloak.studio.twin_grid import NEEDS, Curve, curve_of

MEASURE, RELEASE, INSPECT = "measure", "release", "inspect"
PAGES = {"draft": "draft", "private": "private", "public": "public"}
"""Pages of a sign-off that the studio shows: the name in an address, and the key of `signoff --json`."""

FEW = 10
"""With fewer expected rows, the screen shows a caution."""

Figures = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class StudioCommands:
    """Work that the studio leaves to the command line's own functions.

    sign_off: `signoff` of a log, a plan's file and a folder; True releases, too. inspect: figures of a log (private),
    read with these options. in_words: an error as a terminal shows it.
    """

    sign_off: Callable[[str, Path, Path, bool, OnStep], SignedOff]
    inspect: Callable[[str, Mapping[str, str], OnStep], Figures]
    in_words: InWords


@dataclass(frozen=True)
class Price:
    """Cost of a release for its population, and the rest of the budget.

    account: None if the population has no budget yet. refusal: why the ledger would not pay; None if it would.
    """

    cost: str
    numbers: Sequence[Any]
    account: Account | None
    refusal: str | None

    @property
    def spent(self) -> str:
        """Budget that is gone."""
        return _budget(self.account.spent) if self.account is not None else ""

    @property
    def limit(self) -> str:
        """The limit of the budget."""
        account = self.account
        return "" if account is None else _budget((account.epsilon_limit, account.delta_limit))

    @property
    def left_after(self) -> str:
        """Budget that is left after the release; empty without an account, or if the ledger adds up squared losses."""
        account = self.account
        if account is None or account.limit is not None:
            return ""
        return _budget([left - cost for left, cost in zip(account.left, self.numbers, strict=True)], up=False)

    @property
    def left(self) -> str:
        """Budget that is left."""
        return _budget(self.account.left, up=False) if self.account is not None else ""


@dataclass(frozen=True)
class Answer:
    """Values that the screen shows beside the fields of the form."""

    method: Method
    epsilon: float
    delta: float
    curve: Curve | None
    meaning: list[str]
    accuracy: dict[str, list[str]]
    unprotected: list[str]
    cautions: list[str]

    @property
    def rows(self) -> str | None:
        """Rows expected of the twin; None if no twin was counted for this need."""
        return None if self.curve is None else shown_rows(self.curve.at(self.epsilon))


class Studio:
    """State of one studio: the last form, the ledger, the sign-off shown and the task that runs."""

    def __init__(self, commands: StudioCommands, ledger: Ledger) -> None:
        self.commands, self.ledger = commands, ledger
        self.form = StudioForm()
        self.signed: SignedOff | None = None
        self._signed_plan = ""
        self.figures: Figures | None = None
        self.background = Background(commands.in_words)

    def answer(self) -> Answer:
        """Answer to the form; errors name the field to change."""
        form = self.form
        method = form.method
        proven = method.proven()
        epsilon, delta = (float(each) for each in proven.numbers)
        curve = curve_of(form.need, form.users, form.searches) if form.chosen_need.measured else None
        return Answer(
            method=method,
            epsilon=epsilon,
            delta=delta,
            curve=curve,
            meaning=explain(proven).split("\n\n"),
            accuracy={table: list(reach.lines()) for table, reach in method.reach().items()},
            unprotected=[*proven.unprotected, AFTER_EVIDENCE],
            cautions=[str(each) for each in method.warnings(form.users)] + _too_few(curve, epsilon),
        )

    def price(self, method: Method) -> Price | None:
        """Price of a release in the ledger; None without a population."""
        name = self.form.population
        if not name:
            return None
        accounts = [each for each in self.ledger.show() if each.population == name]
        numbers = method.proven().numbers
        cost = _budget(numbers)
        if not accounts:
            return Price(cost, numbers, None, None)
        try:
            method.paid_by(self.ledger, name).payment(self.ledger, name).check()
        except BudgetRefused as refused:
            return Price(cost, numbers, accounts[0], self.commands.in_words(refused))
        return Price(cost, numbers, accounts[0], None)

    def take(self, posted: Mapping[str, str]) -> None:
        """Keep a form; a sign-off that was shown belongs to the form that it was made with."""
        form = StudioForm.of(posted)
        if (form.log, form.out) != (self.form.log, self.form.out):
            self.signed, self.figures = None, None
        if form != self.form:
            self.background.forget()
        self.form = form

    def inspect(self) -> None:
        """Count the log; the figures are private."""
        form = self.form
        if not form.log:
            raise InputError("the log must be named before it is inspected")

        def work(on_step: OnStep) -> Figures:
            self.figures = self.commands.inspect(form.log, form.reading, on_step)
            return self.figures

        self.background.start(INSPECT, work)

    def set_budget(self) -> None:
        """Set the budget of the population, as `ledger set` does."""
        form = self.form
        limits = []
        for text, name in ((form.limit_epsilon, "epsilon"), (form.limit_delta, "delta")):
            try:
                limits.append(float(text))
            except ValueError:
                raise InputError(f"the limit of {name} must be a number, such as 8 and 1e-5") from None
        self.ledger.set_limit(form.population, limits[0], limits[1])
        self.form = replace(form, limit_epsilon="", limit_delta="")

    def sign_off(self, *, release: bool) -> None:
        """Write the plan, and run `signoff`: for evidence, or to release, too."""
        form = self.form
        if release and not self.measured:
            raise InputError("the plan has changed since its evidence was measured; measure it first")
        if form.missing:
            raise InputError(f"a sign-off also needs {', '.join(title for _, title in form.missing)}")
        text, path, out = form.plan_text, form.plan_path, Path(form.out)
        with private_file(path, "the plan", replaces=_is_ours) as file:
            file.write(text.encode())

        def work(on_step: OnStep) -> SignedOff:
            self.signed = self.commands.sign_off(form.log, path, out, release, on_step)
            self._signed_plan = text
            return self.signed

        self.background.start(RELEASE if release else MEASURE, work)

    @property
    def measured(self) -> bool:
        """True if a sign-off with this very plan is there: its evidence, or its release."""
        try:
            return self.signed is not None and self._signed_plan == self.form.plan_text
        except QuerycloakError:
            return False

    def page(self, name: str) -> str | None:
        """A page of the sign-off that is there; None if it is not."""
        if self.signed is None or name not in PAGES:
            return None
        place = self.signed.to_json()[PAGES[name]]
        return None if place is None else Path(place).read_text("utf-8")

    def view(self, problem: str | None = None) -> dict[str, Any]:
        """Everything that the template shows."""
        form, answer, price, unanswered = self.form, None, None, None
        try:
            answer = self.answer()
            price = self.price(answer.method)
        except QuerycloakError as error:
            unanswered = self.commands.in_words(error)
        state = self.background.state
        return {
            "form": form,
            "needs": NEEDS,
            "chosen": next((need for need in NEEDS if need.name == form.need), NEEDS[0]),
            "units": list(UNITS),
            "unit_meaning": UNITS.get(form.unit, ""),
            "answer": answer,
            "unanswered": unanswered,
            "price": price,
            "pictures": pictures(answer.curve, answer.epsilon) if answer else [],
            "deployments": lettered(),
            "commands": self._commands(answer, price),
            "plan": form.plan_text if answer else "",
            "problem": problem,
            "task": state,
            "signed": self.signed.to_json() if self.signed is not None and self.measured else None,
            "outdated": self.signed is not None and not self.measured,
            "figures": self.figures,
            "to_sign": [TITLES[name] for name in TO_SIGN],
            "here": str(Path.cwd()),
            "example_users": EXAMPLE_USERS,
        }

    def _commands(self, answer: Answer | None, price: Price | None) -> list[tuple[str, str]]:
        """Equivalent commands at a terminal: purpose and command."""
        form = self.form
        commands = [("look at the log (private)", shlex.join(["querycloak", "inspect", *self._log_words()]))]
        if answer is not None:
            commands.append(("what the numbers mean", shlex.join(form.guarantee_command)))
        if price is not None and price.account is None:
            commands.append(("set the budget", shlex.join(form.budget_command)))
        purpose = "release and write the pages" if self.measured else "measure the evidence; nothing is released"
        commands.append((purpose, shlex.join(form.signoff_command(yes=self.measured))))
        if self.signed is not None and self.signed.released and self.measured:
            release = str(self.signed.to_json()["release"])
            sign = ["ssh-keygen", "-Y", "sign", "-n", "querycloak", "-f", "KEY", f"{release}/card.json"]
            check = ["querycloak", "verify", release, "--digest", str(self.signed.digest)]
            commands += [("sign the card of the release", shlex.join(sign)), ("check it", shlex.join(check))]
        return commands

    def _log_words(self) -> list[str]:
        form = self.form
        words = [form.log or "LOG"]
        for name, value in form.reading.items():
            words += [f"--{name.replace('_', '-')}", value]
        return words


def _too_few(curve: Curve | None, epsilon: float) -> list[str]:
    """A caution if the twin gives hardly any rows."""
    if curve is None or (rows := curve.at(epsilon)) >= FEW:
        return []
    return [
        f"Hardly anything comes out of a log of this size: about {shown_rows(rows)} rows. More people help most; a "
        "larger epsilon, fewer columns or another need may help, too."
    ]


def _budget(numbers: Sequence[Any], *, up: bool = True) -> str:
    """Epsilon and delta in four digits; costs are rounded up, and what is left is rounded down."""
    epsilon, delta = (max(0.0, float(each)) for each in numbers)
    if not up:
        epsilon, delta = (float(_DOWN.create_decimal(repr(each))) for each in (epsilon, delta))
    return f"epsilon {shown_up(epsilon)}, delta {shown_up(delta)}"


_DOWN = Context(prec=4, rounding=ROUND_FLOOR)


def _is_ours(path: Path) -> bool:
    """True if a plan has the first line of plans that the studio wrote."""
    with path.open("rb") as file:
        return file.read(len(MADE)) == MADE.encode()


_UNEXPECTED = "this ended with an unexpected error; the same command in a terminal says more"
InWords = Callable[[QuerycloakError], str]


@dataclass(frozen=True)
class TaskState:
    """State of a task. result: its value; problem: reason of its failure; both None while it runs."""

    name: str
    doing: str = ""
    share: float = 0.0
    began: float = 0.0
    first: float = -1.0
    """Share at the first step, from which the speed is measured; -1 before it."""
    result: Any = None
    problem: str | None = None

    @property
    def time_left(self) -> str:
        """Remaining time in words; empty if unknown."""
        return time_left(time.monotonic() - self.began, self.share - self.first, 1 - self.share)

    @property
    def runs(self) -> bool:
        """True if it has not ended."""
        return self.result is None and self.problem is None


class Background:
    """The task that runs, or the last that ran."""

    def __init__(self, in_words: InWords) -> None:
        self._in_words, self._lock = in_words, threading.Lock()
        self._state: TaskState | None = None
        self._thread: threading.Thread | None = None

    @property
    def state(self) -> TaskState | None:
        """The task's state; None before the first."""
        return self._state

    def start(self, name: str, work: Callable[[OnStep], Any]) -> None:
        """Run work in a thread of its own; refused while another task runs."""
        with self._lock:
            if self._state is not None and self._state.runs:
                raise InputError("something is running already; wait until it has ended")
            self._state = TaskState(name, "starting", began=time.monotonic())
            self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
            self._thread.start()

    def forget(self) -> None:
        """Forget a task that has ended."""
        with self._lock:
            if self._state is not None and not self._state.runs:
                self._state = None

    def join(self) -> None:
        """Wait for the end of the task."""
        if self._thread is not None:
            self._thread.join()

    def _run(self, work: Callable[[OnStep], Any]) -> None:
        end: dict[str, Any] = {"problem": _UNEXPECTED}
        try:
            end = {"result": work(self._on_step)}
        except QuerycloakError as error:
            end = {"problem": self._in_words(error)}
        finally:  # no page may wait for ever; the text of another error may quote the log
            self._end(**end)

    def _on_step(self, doing: str, share: float) -> None:
        if self._state is not None:
            first = share if self._state.first < 0 else self._state.first
            self._state = replace(self._state, doing=doing, share=share, first=first)

    def _end(self, **known: Any) -> None:
        if self._state is not None:
            self._state = replace(self._state, **known)
