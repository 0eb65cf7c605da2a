"""`querycloak synth`: a log to try things on, and how close it is to AOL's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.terminal import making_progress, print_json, print_lines
from querycloak.errors import CheckFailed, ParameterError
from querycloak.privacy.parameters import natural, one_of, refuse
from querycloak.sentence import Parameter, Sentence

if TYPE_CHECKING:
    from querycloak.synthetic.log_writer import Preset, Written


def synth(
    out: Annotated[Path | None, typer.Option(help="The file: .tsv (AOL), .parquet or .jsonl (UBI); .gz, .zst.")] = None,
    users: Annotated[int | None, typer.Option(help="How many people search.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="standard: 100,000 users of a web search; shop: 40,000 who come once.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed makes other people; 1 if not given.")] = None,
    views: Annotated[
        bool, typer.Option("--views", help="A row for each result shown (.parquet), or lists of results (.jsonl).")
    ] = False,
    attributes: Annotated[
        str | None, typer.Option(help="Attributes of searches: country, device, language, category, with commas.")
    ] = None,
    truth: Annotated[
        bool, typer.Option("--truth/--no-truth", help="Write the truth beside it, into FILE.truth.")
    ] = True,
    check: Annotated[bool, typer.Option("--check", help="Compare it with AOL's figures.")] = False,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a synthetic log like a real one, with known truth."""
    if out is None:
        refuse("out", "the file to write", None, "its ending says the format, such as log.tsv.gz")
    crowd = crowd_asked_for(users, seed, preset)
    if views or attributes:
        from querycloak.synthetic.made_up_records import WantedRecords

        names = tuple(name.strip() for name in (attributes or "").split(",") if name.strip())
        crowd = crowd._replace(records=WantedRecords(views, names))
    make_log(out, crowd, truth=truth, threads=threads, check=check, as_json=as_json, quiet=quiet)


def crowd_asked_for(users: int | None, seed: int | None, preset: str | None) -> Preset:
    """The crowd to make: this many users, or a preset, which fixes all."""
    from querycloak.synthetic.log_writer import PRESETS, Preset

    if preset is None:
        if users is None:
            refuse("users", "the number of people who search", None, Sentence("or take {preset:standard}"))
        return Preset(users, 1 if seed is None else seed)
    one_of("preset", preset, PRESETS)
    if users is not None or seed is not None:
        raise ParameterError(
            Sentence("{chosen} fixes users and seed: leave {users} and {seed} out", chosen=Parameter("preset", preset))
        )
    return PRESETS[preset]


def make_log(
    out: Path, crowd: Preset, *, truth: bool, threads: int | None, check: bool, as_json: bool, quiet: bool
) -> None:
    """Write the log and print where; compare it with AOL's if `check`."""
    from querycloak.synthetic.log_writer import synthesize

    if threads is not None:
        natural("threads", threads, "leave it out to use all cores")
    with making_progress(crowd.users, quiet=quiet or as_json) as on_users:
        written = synthesize(
            out,
            crowd.users,
            seed=crowd.seed,
            visits=crowd.visits,
            views=crowd.records.views,
            attributes=crowd.records.attributes,
            truth=truth,
            workers=threads,
            on_users=on_users,
        )
    if not as_json and not quiet:
        print_lines(_written_lines(written))
    if check:
        show_check(written, as_json=as_json)
    elif as_json:
        print_json(_facts(written))


def _facts(written: Written) -> dict[str, object]:
    truth = None if written.truth is None else str(written.truth)
    return {"log": str(written.log), "truth": truth, "users": written.users, "rows": written.rows}


def _written_lines(written: Written) -> list[str]:
    lines = [f"{written.rows:,} rows of {written.users:,} invented users in {written.log}"]
    if written.truth is not None:
        lines.append(f"the truth about them in {written.truth}: sensitive queries, interests, sessions")
    return lines


def show_check(written: Written, *, as_json: bool) -> None:
    """AOL's figures beside those of the synthetic log."""
    from querycloak.logs.searchlog import read
    from querycloak.synthetic.aol_figures import FIGURES, measure

    with read(str(written.log)) as log:
        values = measure(log, written.truth)
    failed = []
    lines = ["", f"{'':50}{'AOL':>6}{'made':>8}  held to"]
    for figure in FIGURES:
        if figure.name not in values:
            continue
        value = values[figure.name]
        holds = figure.holds(value) if figure.held_at(written.users) else None
        failed += [figure.name] if holds is False else []
        lines.append(_line(figure.name, figure.aol, value, _range(figure.least, figure.most, holds), figure.note))
    if as_json:
        print_json({**_facts(written), "figures": values, "not held": failed})
    else:
        print_lines(lines)
        sys.stdout.write("No range: the figure depends on a log's size, and is not required at this size.\n")
    if failed:
        raise CheckFailed(f"{len(failed)} of AOL's figures are not held{'' if as_json else ': those with an !'}")


def _range(least: float | None, most: float | None, holds: bool | None) -> str:
    if holds is None or least is None or most is None:
        return ""
    return f"{_number(least)}..{_number(most)}" + ("" if holds else " !")


def _line(name: str, aol: float, value: float, limits: str, note: str) -> str:
    return f"{name:50}{_number(aol):>6}{_number(value):>8}  {limits or (note and f'({note})')}".rstrip()


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
