"""`querycloak guarantee`: guarantee of a method from its options alone; reads no data."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from querycloak.cli import generated_options, options
from querycloak.cli.error_line import as_typed
from querycloak.cli.running import say
from querycloak.cli.terminal import print_json, print_lines
from querycloak.errors import BudgetRefused
from querycloak.methods.method import Method
from querycloak.methods.option import current_options
from querycloak.privacy.accounting.gaussian_filter import cost_of
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.exact import shown_up

if TYPE_CHECKING:
    from querycloak.privacy.accounting.composition import Composed
    from querycloak.privacy.calibration.accuracy import TableAccuracy
    from querycloak.privacy.ledger.ledger import Ledger

_WIDTH = 80


def guarantee(
    method: Method,
    *,
    explain: Annotated[bool, typer.Option("--explain", help="Say what the numbers mean for one person.")] = False,
    releases: Annotated[int, typer.Option(help="Number of such releases: show what they cost together.")] = 1,
    charging: options.Charging,
    population_size: options.PopulationSize = None,
    accuracy: options.AccuracyOptions,
    composing: options.Composing,
    as_json: options.Json = False,
    plan: generated_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Show what a method guarantees: claimed, and proven."""
    method.check_inputs()
    book = charging.book()
    method = method.paid_by(book, charging.population)
    acceptance = None if book is None else acceptance_of(method, book, charging.population)
    tightly = composing.tightly
    together = method.composition(releases, composing.at_delta) if tightly or releases != 1 else None
    cautions = method.warnings(population_size)
    if as_json:
        shown = {**method.describe(), "tables": reach_of(method)}
        if acceptance is not None:
            shown["ledger"] = acceptance.to_json()
        if together is not None:
            shown["composition"] = {"releases": releases, **together.to_json()}
        print_json(shown)
    else:
        print_lines([*guarantee_lines(method), *reach_lines(method, accuracy.line)])
        if together is not None:
            sys.stdout.write(_together_text(method, releases, together, tightly=tightly))
        if acceptance is not None:
            sys.stdout.write(textwrap.fill(acceptance.line, _WIDTH, subsequent_indent="  ") + "\n")
        if explain:
            from querycloak.privacy.explanation import explain as in_plain_words

            paragraphs = in_plain_words(method.proven()).split("\n")
            sys.stdout.write("\n" + "\n".join(textwrap.fill(text, _WIDTH) for text in paragraphs) + "\n")
    for caution in cautions:
        say(as_typed(caution))


class Acceptance(NamedTuple):
    """Whether a ledger would accept a charge, asked before any data; reason: of the refusal, None if it would."""

    population: str | None
    more: int | None
    """Number of such releases that the limit still admits; None if they cost nothing, or if it is refused."""
    reason: str | None = None

    @property
    def line(self) -> str:
        """The answer as a sentence."""
        if self.reason is not None:
            return f"ledger: would be refused: {self.reason}"
        times = "" if self.more is None else f"; the limit admits about {self.more:,} such releases"
        return f"ledger: would be accepted for {self.population}{times}"

    def to_json(self) -> dict[str, Any]:
        """The values that `guarantee --json` prints."""
        return {"population": self.population, "accepted": self.reason is None, "more": self.more, "why": self.reason}


def acceptance_of(method: Method, ledger: Ledger, population: str | None) -> Acceptance:
    """Ask the ledger, before any data, whether it would pay; nothing is charged."""
    try:
        account = method.payment(ledger, population).check()
        method.check_account(account)
    except BudgetRefused as refused:
        return Acceptance(population, None, as_typed(refused.sentence))
    if account is None:
        return Acceptance(population, None)
    bill = method.bill()
    return Acceptance(population, account.more(bill.guarantee, cost_of(bill.guarantee, bill.parameters["mechanisms"])))


def _together_text(method: Method, releases: int, together: Composed, *, tightly: bool) -> str:
    """The budget of several such releases."""
    from querycloak.cli.ledger_command import composed_line
    from querycloak.privacy.accounting.composition import ONE_STEP

    sums = (together.epsilon_sum, together.delta_sum)
    text = "{} such releases: epsilon {}, delta {} by the sum.".format(releases, *map(shown_up, sums))
    text += "" if method.proven().covers_release else f" This {ONE_STEP}."
    text += f" {composed_line(together)}" if tightly else ""
    return textwrap.fill(text, _WIDTH, subsequent_indent="  ") + "\n"


def guarantee_lines(method: Method, released: Guarantee | None = None) -> list[str]:
    """Claimed and proven guarantee side by side, and the unprotected facts.

    released: what is proven of a release, if that is not what the method alone proves.
    """
    claimed, proven = method.claimed(), released or method.proven()
    heading = f"{method.name}, {method.variant} variant: {shown_parameters(method)}"
    title = textwrap.wrap(heading, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    lines = [*title, "", f"{'':12}{'proven':<28}claimed"]
    for label, show in (
        ("kind", lambda g: g.kind),
        ("unit", lambda g: g.unit),
        ("neighbours", lambda g: g.neighbours),
        ("epsilon", lambda g: _number(g, g.epsilon)),
        ("delta", lambda g: _number(g, g.delta)),
        ("k", lambda g: g.k),
    ):
        shown = [_cell(show, each) for each in (proven, claimed)]
        if any(cell != "-" for cell in shown):
            lines.append(f"{label:12}{shown[0]:<28}{shown[1]}".rstrip())
    texts = [f"because: {proven.because}", *(f"unprotected: {text}" for text in proven.unprotected)]
    return [*lines, "", *(line for text in texts for line in textwrap.wrap(text, _WIDTH, subsequent_indent="  "))]


def reach_of(method: Method) -> dict[str, Any]:
    """Accuracy of counts by table, as `describe --json` prints it."""
    return {table: reach.to_json() for table, reach in method.reach().items()}


def reach_lines(method: Method, solved: str | None = None) -> list[str]:
    """Accuracy of counts by table; `solved` is the accuracy target that gave epsilon, None without one."""
    lines = [f"epsilon {method.proven().numbers[0]:g}: {solved}"] if solved else []
    for tables, texts in _each_once(method.reach()).items():
        lines += ["", f"{tables}:"]
        for text in texts:
            lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return lines


def _each_once(reached: Mapping[str, TableAccuracy]) -> dict[str, list[str]]:
    """Texts of each table; a note that several tables share stands once, below all of them."""
    tables_of: dict[str, list[str]] = {}
    for table, reach in reached.items():
        for note in reach.notes:
            tables_of.setdefault(note, []).append(table)
    shared = {note: ", ".join(tables) for note, tables in tables_of.items() if len(tables) > 1}
    texts = {table: [text for text in reach.lines() if text not in shared] for table, reach in reached.items()}
    for note, tables in shared.items():
        texts.setdefault(tables, []).append(note)
    return texts


def shown_parameters(method: Method) -> str:
    """Parameters for people: those that are set, under the names of options, numbers to six digits."""
    return _listed(current_options(type(method), method.parameters()))


def _listed(parameters: Mapping[str, Any]) -> str:
    return ", ".join(
        name.replace("_", "-") + ("" if value is True else f" {_shown(value)}")
        for name, value in parameters.items()
        if value is not None and value is not False
    )


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return f"({_listed(value)})"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_shown, value))})"
    if isinstance(value, str) and " " in value:  # a candidate of auto, such as "rounds 16", as cards record it
        from querycloak.privacy.calibration.weighted import FORMER_SELECTIONS

        selection, _, bound = value.partition(" ")
        return f"{FORMER_SELECTIONS.get(selection, selection)} {bound}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _number(guarantee: Guarantee, number: float | None) -> str | None:
    """A number of a guarantee; "none for the whole release" if it covers one step only; None if there is none."""
    if number is None:
        return None
    return shown_up(number) if guarantee.covers_release else "none for the whole release"


def _cell(show: object, guarantee: Guarantee | None) -> str:
    value = show(guarantee) if guarantee is not None and callable(show) else None
    return "-" if value is None else str(value)
