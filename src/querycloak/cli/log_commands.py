"""Commands that read or make a log: inspect, split, synth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from querycloak.cli import options
from querycloak.files.private_file import check_new
from querycloak.privacy.parameters import refuse


@options.with_groups
def inspect_log(
    log: options.Logs,
    *,
    set_aside: options.SetAside = None,
    gap_minutes: options.GapMinutes = 30,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Profile a log: rows, users, searches, clicks (private output)."""
    from querycloak.cli.inspect_command import show_profile

    if set_aside is not None:
        from querycloak.releases.folder import outside_releases

        check_new(set_aside, "the file for rows set aside")
        outside_releases(set_aside, "set_aside")
    with reading.open(log, quiet=quiet or as_json, out=set_aside) as opened:
        if set_aside is not None:
            opened.write_set_aside(set_aside)
        show_profile(opened, gap_minutes, as_json=as_json)


@options.with_groups
def split(
    log: options.Logs,
    *,
    by: Annotated[
        Literal["user", "time"] | None,
        typer.Option(help="user, or time: TRAIN before a moment, TEST from then on; no user in both."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The private folder to write; it must not exist yet.")] = None,
    test: Annotated[float | None, typer.Option(help="The share of users in TEST; 0.1 if not given.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed divides the users differently.")] = 1,
    folds: Annotated[int | None, typer.Option(help="The number of parts that take turns as TEST.")] = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Split a log into TRAIN and TEST (private output)."""
    if by is None:
        refuse("by", "user or time", None, "say how the log is to be split")
    if out is None:
        refuse("out", "the folder to write", None, "it must not exist yet")
    from querycloak.cli.split_command import show_split
    from querycloak.evaluation.split_folder import check_split_folder, write_split
    from querycloak.logs.split import Split

    how, target = Split(by=by, test=test, seed=seed, folds=folds), check_split_folder(out)
    with reading.open(log, quiet=quiet or as_json, out=target) as opened:
        written = write_split(opened, target, how)
    if as_json or not quiet:
        show_split(written, as_json=as_json)


def synth(
    out: Annotated[Path | None, typer.Option(help="The file: .tsv (AOL), .parquet or .jsonl (UBI); .gz, .zst.")] = None,
    users: Annotated[int | None, typer.Option(help="How many people search.")] = None,
    preset: Annotated[
        str | None, typer.Option(help="standard: 100,000 users of a web search; shop: 40,000 who come once.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed makes other people; 1 if not given.")] = None,
    truth: Annotated[
        bool, typer.Option("--truth/--no-truth", help="Write the truth beside it, into FILE.truth.")
    ] = True,
    check: Annotated[bool, typer.Option("--check", help="Compare it with AOL's figures.")] = False,
    threads: options.Threads = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Make a synthetic log like a real one; its truth is known."""
    if out is None:
        refuse("out", "the file to write", None, "its ending says the format, such as log.tsv.gz")
    from querycloak.cli.synth_command import crowd_asked_for, make_log

    crowd = crowd_asked_for(users, seed, preset)
    make_log(out, crowd, truth=truth, threads=threads, check=check, as_json=as_json, quiet=quiet)
