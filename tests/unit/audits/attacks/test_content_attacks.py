"""Inference, secrets, reconstruction and texts forced out, on logs in which the answer is known."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querycloak.audits.attack import Attack, Finding
from querycloak.audits.attacks.forced_out import AROUND_CONCEPTS, CANDIDATES, EVERY_URL, NEVER, ForcedOut, rule_of
from querycloak.audits.attacks.inference import NOT_TIED, Inference
from querycloak.audits.attacks.planted_secrets import NO_TRUTH, PlantedSecrets
from querycloak.audits.attacks.reconstruction import Reconstruction
from querycloak.audits.attacks.regurgitation import Regurgitation
from querycloak.audits.audit_data import AuditData
from querycloak.audits.release_audit import original, owners_under_seed
from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.evaluation.target import NO_OWNERS, Target
from querycloak.logs.searchlog import read
from querycloak.methods.affinity.method import Affinity
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.generalize.method import Generalize
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.method import Method
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.queries.method import Queries
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.sessions.method import Sessions
from querycloak.pages.comparison_page import accounts_in_words
from querycloak.privacy.calibration.poisoning import ForcedOutRule
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.row_kinds import RowKind
from tests.unit.audits.toy_logs import counted, knowing, named_rows

# Half of them ask about a disease; everybody has a query of their own.
ILL = {f"u{i:02}": [f"my own thing {i}", *["asthma", "leprosy"][: i % 2]] for i in range(40)}
OTHERS = {f"v{i}": [f"another thing {i}", *["asthma"][: i % 2]] for i in range(20)}


@pytest.fixture
def knowledge(duckdb_engine: Engine, tmp_path: Path) -> AuditData:
    return knowing(duckdb_engine, tmp_path, ILL, OTHERS)


def found(attack: Attack, release: Target, knowledge: AuditData) -> dict[str | None, Finding]:
    return {each.setting: each for each in attack.run(release, knowledge)}


def test_a_name_that_fits_tells_the_topic(knowledge: AuditData) -> None:
    rows = found(Inference(), original(knowledge), knowledge)
    assert (rows["m=1 disease"].main, rows["m=1 disease"].control) == (1, 0.5)
    assert (rows["m=1 disease"].risk, rows["m=1 disease"].targets) == (1, 40)
    assert rows["m=3 disease"].main is None  # nobody has three queries
    assert rows["m=1 religion"].main is None  # nobody asks
    empty = found(Inference(), named_rows({}), knowledge)["m=1 disease"]
    assert (empty.main, empty.why) == (
        0.5,
        "invalid: no better than without the release, so it says nothing about the risk",
    )


def test_sequences_tell_the_topic(knowledge: AuditData) -> None:
    """Whoever asks thing 1 goes on to asthma, whoever asks thing 2 to maps: half of the known are told, rightly."""
    sessions = [[f"my own thing {i}", "asthma" if i % 2 else "maps"] for i in range(20)]
    table = pa.table({"queries": sessions, "count": pa.array([10] * 20, pa.int64())})
    rows = found(Inference(), Target(name="sessions", tables={"sessions": table}), knowledge)
    assert rows["m=1 disease"].main == 0.75
    pairs = pa.table(
        {
            "query": [s[0] for s in sessions],
            "next_query": [s[1] for s in sessions],
            "count": pa.array([10] * 20, pa.int64()),
        }
    )
    rows = found(Inference(), Target(name="transitions", tables={"transitions": pairs}), knowledge)
    assert rows["m=1 disease"].main == 0.75
    assert Inference().unsupported_reason(counted({"a": 1}), knowledge) == NOT_TIED


def truth_of(folder: Path, rows: list[tuple[str, str, str]]) -> Path:
    folder.mkdir()
    columns = dict(zip(("user", "query", "kind"), map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), folder / "sensitive.parquet")
    return folder


def test_secrets_by_kind(duckdb_engine: Engine, tmp_path: Path) -> None:
    truth = truth_of(
        tmp_path / "truth",
        [
            ("u1", "Ann  Smith", "own name"),
            ("u2", "bob jones", "own name"),
            ("u2", "4000 1", "card"),
            ("v1", "ann smith", "own name"),
        ],
    )
    train = {"u1": ["Ann  Smith"], "u2": ["bob jones", "4000 1"]}
    knowledge = knowing(duckdb_engine, tmp_path, train, {"v1": ["ann smith"]}, truth=truth)
    rows = found(PlantedSecrets(), counted({"ann smith": 7}), knowledge)
    assert (rows["own name"].main, rows["own name"].control, rows["own name"].risk) == (1 / 2, 1, 0)
    assert (rows["card"].main, rows["card"].targets) == (0, 1)
    assert (rows["all kinds"].main, rows["all kinds"].targets) == (1 / 3, 3)
    assert found(PlantedSecrets(), original(knowledge), knowledge)["all kinds"].main == 1
    lists = pa.table({"queries": [["x", "4000 1"]], "count": pa.array([3], pa.int64())})
    assert found(PlantedSecrets(), Target(name="s", tables={"sessions": lists}), knowledge)["card"].main == 1


def test_phrases_that_are_whole_queries_may_be_secrets(duckdb_engine: Engine, tmp_path: Path) -> None:
    truth = truth_of(tmp_path / "truth", [("u1", "ann smith", "own name"), ("u2", "bob jones", "own name")])
    knowledge = knowing(duckdb_engine, tmp_path, {"u1": ["ann smith"], "u2": ["bob jones"]}, {"v1": ["x"]}, truth=truth)
    columns = {"phrase": ["ann smith", "bob jones"], "words": [2, 2], "begins": [True, True], "ends": [True, False]}
    table = pa.table({**columns, "count": [9, 9]})
    assert found(PlantedSecrets(), Target(name="p", tables={"phrases": table}), knowledge)["own name"].main == 1 / 2


def test_a_model_of_the_log_repeats_secrets_and_one_of_other_words_does_not(
    duckdb_engine: Engine, tmp_path: Path
) -> None:
    secrets = {f"u{n}": [f"secret{n:03} of {n:03}"] for n in range(30)}
    controls = {f"v{n}": [f"secret{n:03} by {n:03}"] for n in range(30)}
    rows = [(user, asked[0], "number") for user, asked in {**secrets, **controls}.items()]
    knowledge = knowing(duckdb_engine, tmp_path, secrets, controls, truth=truth_of(tmp_path / "truth", rows))
    raw = found(Regurgitation(), original(knowledge), knowledge)
    assert (raw["completed, all kinds"].main, raw["completed, all kinds"].control) == (1, 0)
    assert raw["exposed by 6 of 7 bits"].main == 1
    harmless = found(Regurgitation(), counted({"weather": 20, "maps": 10}), knowledge)
    assert harmless["completed, number"].main == 0
    assert (harmless["exposed by 6 of 7 bits"].main or 0) < 0.3
    empty = Regurgitation().run(counted({}), knowledge)
    assert [each.why for each in empty] == ["it is empty, so no model can be made of it"]
    assert Regurgitation().unsupported_reason(counted({}), knowledge) is None


def test_secrets_need_the_truth(knowledge: AuditData, duckdb_engine: Engine, tmp_path: Path) -> None:
    assert PlantedSecrets().unsupported_reason(counted({}), knowledge) == NO_TRUTH
    with pytest.raises(InputError, match=r"has no sensitive\.parquet"):
        knowing(duckdb_engine, tmp_path, ILL, OTHERS, truth=tmp_path)
    (tmp_path / "sensitive.parquet").write_bytes(b"nothing")
    broken = knowing(duckdb_engine, tmp_path, ILL, OTHERS, truth=tmp_path)
    with pytest.raises(InputError, match=r"cannot be read; it must hold user, query and kind"):
        list(PlantedSecrets().run(counted({}), broken))


def test_reconstruction(knowledge: AuditData) -> None:
    rows = found(Reconstruction(), original(knowledge), knowledge)
    assert rows["any row"].main == 1
    # Everybody's rows say malaria: nobody asked that.
    wrong = found(Reconstruction(), named_rows({key: ["malaria"] for key in ILL}, rows=RowKind.REPLACED), knowledge)
    assert (wrong["any row"].main, wrong["most frequent"].main) == (0, 0)
    assert (wrong["any row"].why or "").startswith("invalid")
    # Of two rows one is right, and it is the more frequent one.
    ill = {user: queries for user, queries in ILL.items() if "asthma" in queries}
    half = found(Reconstruction(), named_rows({key: ["asthma", "asthma", "malaria"] for key in ill}), knowledge)
    assert (half["any row"].main, half["most frequent"].main) == (1 / 2, 1)
    assert Reconstruction().unsupported_reason(named_rows(ILL, owned=False), knowledge) == NO_OWNERS


@pytest.mark.parametrize(
    "method",
    [
        KAnonymity(min_users=5, keys="log"),
        Affinity(min_users=5),
        Generalize(min_users=5),
        Semantic(epsilon=8.0, domain="disease", max_queries=4),
    ],
    ids=lambda method: method.name,
)
def test_a_seed_tells_whose_rows_are_whose(knowledge: AuditData, method: Method) -> None:
    release = method.release(knowledge.train, randomness=Randomness(7))
    owners = owners_under_seed(release, knowledge.train, 7)
    assert owners is not None
    rows = release.table("log")
    assert rows.num_rows
    by_name = dict(zip(owners["name"].to_pylist(), owners["user"].to_pylist(), strict=True))
    if method.name == "k-anonymity":  # what stands there is what its owner asked
        assert all(row["query"] in ILL[by_name[row["user"]]] for row in rows.to_pylist())
    assert owners_under_seed(release, knowledge.train, 8) is None


RULES: list[tuple[str, dict[str, Any], ForcedOutRule]] = [
    ("k-anonymity", {"keys": "log", "min_users": 5}, ForcedOutRule(4)),
    ("affinity", {"min_users": 5, "min_word_users": 2}, ForcedOutRule(4, beside=2)),
    ("affinity", {"min_users": 5, "min_word_users": 8}, ForcedOutRule(7, beside=8)),
    # One draw: K + 1 accounts, as many texts as one user may add to (poisoning.md).
    ("clicks", {"selection": "gaussian", "threshold": 23, "per_user": 32}, ForcedOutRule(23, 32)),
    ("clicks", {"selection": "rounds", "threshold": 6.25, "per_user": 256}, ForcedOutRule(1600, 256, "weights")),
    (
        "sessions",
        {"selection": "rounds", "clicks": {"threshold": 9.25}, "per_user": 256},
        ForcedOutRule(2368, 256, "weights", table="clicks"),
    ),
    ("query-pool", {"off_pool": True, "threshold": 40, "clicks": "none"}, ForcedOutRule(40)),
]


@pytest.mark.parametrize(("method", "parameters", "rule"), RULES)
def test_how_many_accounts(method: str, parameters: dict[str, Any], rule: ForcedOutRule) -> None:
    assert rule_of(Target(name="r", tables={}, method=method, parameters=parameters)) == rule


def test_accounts_in_the_papers_variant_count_several_times() -> None:
    paper = Target(name="r", tables={}, method="clicks", variant="paper", parameters={"threshold": 20, "per_user": 4})
    rule = rule_of(paper)
    assert rule is not None
    assert [rule.accounts_for(texts) for texts in (1, 2, 4)] == [6, 11, 21]


@pytest.mark.parametrize(
    "method",
    [
        Clicks(epsilon=1, delta=1e-6, max_keys_per_user=1, selection="laplace"),
        Clicks(epsilon=8, delta=1e-6),
        Sessions(epsilon=8, delta=1e-6),
        Optimal(epsilon=8, delta=1e-6),
        KAnonymity(min_users=5, keys="log"),
        Affinity(min_users=5, min_word_users=2),
    ],
    ids=lambda method: method.name,
)
def test_formulas_hold_when_tried(knowledge: AuditData, method: Method) -> None:
    release = Target.of(method.release(knowledge.train), "release")
    rule = rule_of(release)
    assert rule is not None
    rows = found(ForcedOut(), release, knowledge)
    enough, too_few = rows[f"{rule.accounts} accounts, 1 text"], rows[f"{rule.accounts - 1} accounts, 1 text"]
    # One half or more with so many; fewer bring out fewer. 200 tries: four standard errors are .14.
    assert (enough.main or 0) > 0.36
    assert (too_few.main or 0) < (enough.main or 0) + 0.14
    several = min(16, rule.per_user or 16)
    if several > 1:
        assert (rows[f"{rule.accounts_for(several)} accounts, 16 texts"].main or 0) > 0.36
    if method.name == "affinity":
        assert rows["2 accounts, 1 text beside a frequent word"].main == 1


AGREEING = [
    Queries(epsilon=8, delta=1e-6),
    Clicks(epsilon=8, delta=1e-6),
    Clicks(noise=1, threshold=19, max_keys_per_user=4, variant="paper"),
    Sessions(epsilon=8, delta=1e-6),
    Sessions(epsilon=8, delta=1e-6, no_clicks=True),
    Sessions(epsilon=8, delta=1e-6, selection="gaussian", split="clicks=1,sessions=3"),
    QueryPool(epsilon=4),
    QueryPool(epsilon=4, delta=1e-6),
    QueryPool(epsilon=4, delta=1e-6, off_pool=True),
    Affinity(min_users=5, variant="paper"),
]


@pytest.mark.parametrize("method", AGREEING, ids=lambda method: method.name)
def test_card_page_and_audit_state_one_number_of_accounts(knowledge: AuditData, method: Method) -> None:
    release = method.release(knowledge.train)
    (sentence,) = [text for text in release.proven.unprotected if "accounts of one person" in text]
    assert "setting that needs fewest" not in sentence
    on_card = [int(number) for number in re.findall(r"([\d]+) (?:bring out (?:any text that|one)|any text)", sentence)]
    audited = Target.of(release, "release")
    rows = found(ForcedOut(), audited, knowledge)
    first = next(iter(rows)) or ""
    words = accounts_in_words([setting for setting in rows if setting])
    if method.name == "affinity":
        assert on_card == [2, 5]
        assert words == "5 accounts (2 beside a frequent word)"
    else:
        assert on_card == [int(first.split()[0])]
        assert words.startswith(first.split(",")[0])
    # Tried, too: one half or more; 200 tries, four standard errors are .14.
    assert (rows[first].main or 0) > 0.36


@pytest.mark.parametrize(
    "method", [QueryPool(epsilon=4), Affinity(min_users=5, concept_users=5)], ids=lambda method: method.name
)
def test_cards_without_options_are_tried_or_not_but_never_fail(knowledge: AuditData, method: Method) -> None:
    release = replace(Target.of(method.release(knowledge.train), "release"), options=None)
    rows = found(ForcedOut(), release, knowledge)
    assert len(rows) >= 3
    assert not any(row.main is None for row in rows.values())
    unknown = replace(release, parameters={**release.parameters, "pool_sha256": "ab"})
    if method.name == "query-pool":
        assert all(row.main is None for row in found(ForcedOut(), unknown, knowledge).values())


def test_a_setting_that_is_still_to_be_chosen_has_the_smallest_number() -> None:
    method = Clicks(epsilon=8, delta=1e-6)
    assert "setting that needs fewest" in method.proven().unprotected[-1]
    fixed = Clicks(epsilon=8, delta=1e-6, max_keys_per_user=1, selection="laplace")
    assert "setting that needs fewest" not in fixed.proven().unprotected[-1]


def test_a_published_pool_has_no_threshold_for_urls(knowledge: AuditData) -> None:
    paper = Target(name="r", tables={}, method="query-pool", variant="paper", parameters={"threshold": 5})
    assert ForcedOut().unsupported_reason(paper, knowledge) == EVERY_URL


@pytest.mark.parametrize("name", NEVER)
def test_what_nobody_can_force_out(knowledge: AuditData, name: str) -> None:
    assert ForcedOut().unsupported_reason(Target(name="r", tables={}, method=name), knowledge) == NEVER[name]


@pytest.mark.parametrize(("variant", "reason"), [("log", CANDIDATES), ("paper", AROUND_CONCEPTS)])
def test_texts_that_were_typed_come_out_of_two_variants(knowledge: AuditData, variant: str, reason: str) -> None:
    target = Target(name="r", tables={}, method="semantic", variant=variant)
    assert ForcedOut().unsupported_reason(target, knowledge) == reason


def test_anybodys_method(knowledge: AuditData) -> None:
    assert "does not say how many users" in (ForcedOut().unsupported_reason(counted({}), knowledge) or "")
    own = Target(name="r", tables={}, method="mine", parameters={"threshold": 4})
    rows = found(ForcedOut(), own, knowledge)
    assert rows["5 accounts, 1 text"].main is None
    assert "by formula" in (rows["5 accounts, 1 text"].why or "")
    assert found(ForcedOut(), original(knowledge), knowledge)["1 account, 1 text"].main == 1


def by_country(asked: dict[str, list[str]], place: Path) -> Path:
    """A log in which everybody whose number is odd is in France, the others are in Spain."""
    rows = [
        {"user": user, "time": datetime(2024, 1, 1, 9, minute), "query": query, "country": "fr" if number % 2 else "es"}
        for number, (user, queries) in enumerate(asked.items())
        for minute, query in enumerate(queries)
    ]
    pq.write_table(pa.Table.from_pylist(rows), place)
    return place


def test_counts_by_country_tell_the_country_of_a_person(duckdb_engine: Engine, tmp_path: Path) -> None:
    speech = [["pain", "vin", "lait"], ["pan", "vino", "leche"]]
    sides = [{f"{side}{i}": speech[1 - i % 2] for i in range(number)} for side, number in (("u", 80), ("v", 20))]
    logs = [
        read(by_country(asked, tmp_path / f"{side}.parquet"), engine=duckdb_engine, attributes=("country",))
        for side, asked in zip("uv", sides, strict=True)
    ]
    knowledge = AuditData(logs[0], logs[1])
    method = Queries(epsilon=20, delta=1e-3, by="country", domain_of="country=iso3166")
    release = method.release(logs[0], randomness=Randomness(seed=1))
    rows = found(Inference(), Target.of(release, "by country"), knowledge)
    finding = rows["m=1 country"]
    # Strangers are told apart as well: the counts speak of France and Spain, not of one person.
    assert (finding.main, finding.control, finding.baseline, finding.risk) == (1, 1, 0.5, 0)
    assert rows["m=3 country"].targets == 80
    assert rows["m=5 country"].main is None  # nobody has five queries
    plain = Queries(epsilon=20, delta=1e-3).release(logs[0], randomness=Randomness(seed=1))
    assert Inference().unsupported_reason(Target.of(plain, "plain"), knowledge) == NOT_TIED
