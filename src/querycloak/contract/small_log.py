"""The log that methods are tried on: small, invented, and with something in it for every kind of method."""

from __future__ import annotations

USERS = 60
PAIRS = 40
HEADER = "AnonID\tQuery\tQueryTime\tItemRank\tClickURL"
CONCEPTS = ("water polo", "tennis", "asthma", "arthritis", "golf", "chess", "marathon", "measles", "rugby", "boxing")
RARE_QUERY, RARE_URL = "letter to aunt zerlinda", "http://zerlinda-quinsberry.example/letters"
"""What one user alone asked and clicked."""
SAYS_EVERYTHING_TWICE = 7
Row = tuple[int, str, str, str]


def user_name(user: int) -> str:
    """What a user is called in the log: a text that stands nowhere else."""
    return f"account-417{user:02}749"


SECRETS = (*map(user_name, range(USERS)), RARE_QUERY, RARE_URL)
"""What must not stand in a release, unless the mechanism put it into a row."""


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
