"""The tables of a ledger, version by version, and the kind of file that holds them."""

from querycloak.privacy.ledger import journal
from querycloak.privacy.ledger.sqlite import Kind
from querycloak.sentence import Action, Sentence

__all__ = ["FIRST_TABLES", "KIND", "RESTORE", "SECOND_TABLES"]

FIRST_TABLES = (
    "CREATE TABLE populations (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL)",
    """CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, population TEXT NOT NULL REFERENCES populations,
       made TEXT NOT NULL, method TEXT NOT NULL, guarantee TEXT NOT NULL, parameters TEXT NOT NULL)""",
    """CREATE TABLE releases (charge INTEGER NOT NULL REFERENCES charges, digest TEXT NOT NULL,
       PRIMARY KEY (charge, digest))""",
    # What is spent stays spent, also if somebody opens the file with another program.
    "CREATE TRIGGER charges_stay BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'charges stay'); END",
    "CREATE TRIGGER charges_keep BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'charges stay'); END",
)
# Since version 2: where a release was about to be when its charge was last heard of.
SECOND_TABLES = (
    """CREATE TABLE announced (charge INTEGER NOT NULL REFERENCES charges, digest TEXT NOT NULL,
       folder TEXT NOT NULL, PRIMARY KEY (charge, digest))""",
)
# Since version 4: how a population is accounted, as JSON; empty where epsilons and deltas are added up.
FOURTH_TABLES = ("ALTER TABLE populations ADD COLUMN terms TEXT NOT NULL DEFAULT '{}'",)
# Since version 5: what each charge reserves of a Gaussian limit, as JSON, to what it was lowered after the draw, and
# which releases of a series were begun.
FIFTH_TABLES = (
    "ALTER TABLE charges ADD COLUMN cost TEXT NOT NULL DEFAULT ''",
    "CREATE TABLE lowered (charge INTEGER PRIMARY KEY REFERENCES charges, cost TEXT NOT NULL)",
    """CREATE TABLE taken (charge INTEGER NOT NULL REFERENCES charges, number INTEGER NOT NULL, made TEXT NOT NULL,
       PRIMARY KEY (charge, number))""",
    *(rule for table in ("lowered", "taken") for rule in journal.kept_rows(table)),
)
OTHER_FILE = Sentence(
    "name another file with {ledger} or QUERYCLOAK_LEDGER", ledger=Action("Ledger(FILE)", ("--ledger", "FILE"))
)
RESTORE = Sentence(
    "an older copy, put back in its place, has forgotten the charges since: find them with {verify} for every release "
    "that was made, and lower the limit by what they cost",
    verify=Action("verify(RELEASE, ledger=FILE)", ("querycloak", "verify", "RELEASE", "--ledger", "FILE")),
)
KIND = Kind(
    application=0x51434C47,  # "QCLG"
    versions=(FIRST_TABLES, SECOND_TABLES, journal.TABLES, FOURTH_TABLES, FIFTH_TABLES),
    name="ledger",
    not_done="nothing was charged",
    elsewhere=OTHER_FILE,
    restore=RESTORE,
    upgraded=journal.seal,
)
