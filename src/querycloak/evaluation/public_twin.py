"""Utility figures that may be published: measured on a public twin, never on the log (`evaluate --publishable`).

The twin is a synthetic log whose TRAIN has about as many users as the owner states publicly. The method releases TRAIN
with the options on the card, with fresh noise, and TEST judges that. All of it follows from the card, a public number,
a public seed and that noise, so the figures tell nothing about the log, and no budget is needed. They say what the
method does at this size, not what this release does.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from querycloak.errors import ParameterError
from querycloak.evaluation.evaluation import Evaluation, evaluate
from querycloak.evaluation.split_folder import write_split
from querycloak.logs.searchlog import OnStep, read
from querycloak.logs.split import Split
from querycloak.methods.evidence import load
from querycloak.methods.registry import METHODS, method_class
from querycloak.privacy.parameters import path_of, refuse, whole
from querycloak.releases.release import Release
from querycloak.sentence import Sentence
from querycloak.synthetic.log_writer import synthesize

SEED = 1
TEST_SHARE = 0.1
_FEWEST, _MOST = 20, 10**7


@dataclass(frozen=True, eq=False, repr=False)
class PublicEvaluation(Evaluation):
    """Rows of an evaluation on a public twin, and what the twin is: public output."""

    twin: dict[str, Any]

    @property
    def heading(self) -> str:
        """The first line of the output."""
        return f"PUBLIC: measured on {self.twin['measured_on']}."

    def to_json(self) -> dict[str, Any]:
        """The rows as plain values, with the twin and the release's method and options."""
        return {"private": False, "publishable": True, **self.twin, "results": [asdict(row) for row in self.rows]}


def evaluate_publicly(
    release: str | os.PathLike[str],
    tasks: Sequence[str] | None = None,
    *,
    population_size: int | None = None,
    on_step: OnStep | None = None,
) -> PublicEvaluation:
    """Evaluate the method and options of a release folder on a synthetic log with the stated number of users.

    population_size: the number of users, if it is public; that of the card if not given.
    """
    folder = path_of("release", release, "name the folder of a release")
    loaded = load(folder)
    size = _stated(loaded, population_size)
    method = _method(loaded)
    with TemporaryDirectory(prefix="querycloak-twin-") as place:
        log, split = Path(place) / "twin.parquet", Path(place) / "split"
        viewed = "positions" in loaded.tables
        users, attributes = round(size / (1 - TEST_SHARE)), method.attributes
        synthesize(log, users, seed=SEED, views=viewed, attributes=attributes, truth=False)
        with read(log, log_format="parquet", attributes=attributes) as opened:
            sides = write_split(opened, split, Split(by="user", test=TEST_SHARE))
        with read(sides.train, log_format="parquet", attributes=attributes) as train:
            made = method.release(train, population_size=size)
            test = read(sides.test, log_format="parquet", attributes=attributes, engine=train.engine)
            rows = evaluate(train, test, {loaded.method: made}, tasks, on_step=on_step).rows
    return PublicEvaluation(rows, _twin(loaded, size))


def _stated(release: Release, given: int | None) -> int:
    size = release.population_size if given is None else given
    if size is None:
        refuse("population_size", "the number of users, if it is public", None, "the card of this release has none")
    whole("population_size", size, "the public number of users", least=_FEWEST, most=_MOST)
    return size


def _method(release: Release) -> Any:
    """The method of a card with its options; both are public."""
    if release.options is None or release.method not in METHODS:
        raise ParameterError(
            Sentence("the card does not list the options of its method, so no public twin of this release can be made")
        )
    return method_class(release.method)(**release.options)


def _twin(release: Release, size: int) -> dict[str, Any]:
    return {
        "measured_on": f"a public twin, not on the log: a synthetic log of {size:,} users (seed {SEED}), released with "
        "the same method and options",
        "users": size,
        "method": release.method,
        "variant": release.variant,
        "options": dict(release.options or {}),
    }
