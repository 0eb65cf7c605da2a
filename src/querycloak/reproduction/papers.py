"""The five papers by name, and how one is made again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from querycloak.errors import ParameterError
from querycloak.reproduction.exhibit import Exhibit, Reproduced
from querycloak.reproduction.workbench import Workbench

ALL = "all"


@dataclass(frozen=True)
class Paper:
    """A paper: what it is about, and how many synthetic users stand for AOL's, in short and in full."""

    key: str
    method: str
    few_users: int
    users: int

    def reproduced(self, bench: Workbench) -> Reproduced:
        """All its tables and figures."""
        citation, work = _work(self.key)
        return Reproduced(
            self.key, citation, self.method, bench.words, not bench.synthetic, bench.quick, tuple(work(bench))
        )


PAPERS = {
    each.key: each
    for each in (
        Paper("zhang2017", "sessions", 20_000, 100_000),
        Paper("zhang2016", "query-pool", 20_000, 100_000),
        Paper("hong2012", "optimal", 5_000, 100_000),
        Paper("sanchez2018", "semantic", 20_000, 100_000),
        Paper("carpineto2015", "affinity", 20_000, 100_000),
    )
}


def papers_named(name: str) -> list[Paper]:
    """One paper, or all of them."""
    if name == ALL:
        return list(PAPERS.values())
    if name not in PAPERS:
        raise ParameterError(f"there is no paper {name!r}; choose one of {', '.join(PAPERS)}, or {ALL}")
    return [PAPERS[name]]


def _work(key: str) -> tuple[str, Callable[[Workbench], list[Exhibit]]]:
    """The citation and the experiments of a paper; loaded when it is its turn."""
    if key == "zhang2017":
        from querycloak.reproduction.zhang2017_exhibits import CITATION, zhang2017

        return CITATION, zhang2017
    if key == "zhang2016":
        from querycloak.reproduction.zhang2016_exhibits import CITATION, zhang2016

        return CITATION, zhang2016
    if key == "hong2012":
        from querycloak.reproduction.hong2012_exhibits import CITATION, hong2012

        return CITATION, hong2012
    if key == "sanchez2018":
        from querycloak.reproduction.sanchez2018_exhibits import CITATION, sanchez2018

        return CITATION, sanchez2018
    from querycloak.reproduction.carpineto2015_exhibits import CITATION, carpineto2015

    return CITATION, carpineto2015
