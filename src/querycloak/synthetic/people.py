"""Synthetic people: activity, visit times, topics and lengths of visits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from querycloak.synthetic.heavy_tails import Flags, Floats, Ints
from querycloak.synthetic.world import DISEASE, World

# Aims of a session. SITE: to get to a known site; TAIL_SITE: to one that hardly anybody knows; THING: to learn about
# something of an interest or of the moment; EVERYDAY: what everybody asks; PERSON: to find somebody; PLACE: something
# in a town; ODD: a rare word, a code, a part number.
AIMS = ("site", "tail site", "thing", "everyday", "person", "place", "odd")
SITE, TAIL_SITE, THING, EVERYDAY, PERSON, PLACE, ODD = range(len(AIMS))
_AIM_SHARES = (0.215, 0.235, 0.39, 0.013, 0.052, 0.03, 0.05)
_SEVERAL = np.array([0.27, 0.22, 0.52, 0.25, 0.40, 0.45, 0.30])  # the chance of more than one query
_MORE = 0.36  # the chance to stop after each further query
MOST_QUERIES = 14
_APART = 2 * 3600  # sessions begin at least so far apart
_COME_BACK = 0.80
_COME_BACK_TO = np.array([0.75, 0.55, 0.38, 0.75, 0.35, 0.35, 0.30])
_WHOLLY = 0.16  # the share of sessions come back to that are repeated query by query
_OF_THE_MOMENT = 0.3  # the share of things that have nothing to do with lasting interests


@dataclass(frozen=True)
class PlannedSessions:
    """One row for each session, ordered by person and time."""

    person: Ints
    start: Ints
    aim: Ints
    queries: Ints
    interest: Ints  # which of the person's interests, or -1
    repeats: Ints  # the session whose first query this one begins with: its own number if it is new
    wholly: Flags  # it repeats that session to its end

    def __len__(self) -> int:
        return len(self.person)


def make_sessions(people: People, random: np.random.Generator) -> PlannedSessions:
    """All sessions of these people."""
    person = np.repeat(np.arange(len(people)), people.sessions)
    start = _starts(people, person, random)
    order = np.lexsort((start, person))
    start = _apart(person, start[order])
    aim = random.choice(len(AIMS), len(person), p=np.array(_AIM_SHARES) / sum(_AIM_SHARES))
    repeats = _repeats(person, aim, people, random)
    aim = aim[repeats]
    several = random.random(len(person)) < _SEVERAL[aim]
    queries = np.where(several, np.minimum(1 + random.geometric(_MORE, len(person)), MOST_QUERIES), 1)
    wholly = (repeats != np.arange(len(person))) & (random.random(len(person)) < _WHOLLY)
    queries[wholly] = queries[repeats[wholly]]
    interest = np.where(aim == THING, _interests(people, person, start, random), -1)[repeats]
    return PlannedSessions(person, start, aim, queries, interest, repeats, wholly)


def _starts(people: People, person: Ints, random: np.random.Generator) -> Ints:
    day = people.first_day[person] + random.random(len(person)) * (people.last_day - people.first_day)[person]
    hour = (people.hour[person] + random.normal(0.0, 3.5, len(person))) % 24
    return (START + np.floor(day) * DAY + hour * 3600).astype(np.int64)


def _apart(person: Ints, start: Ints) -> Ints:
    """The starts, moved so that a person's sessions keep a distance and end before the log does."""
    # A constant far above any time for each person, so that one running maximum serves all.
    shift = person * (8 * (END - START))
    place = np.arange(len(start)) * _APART
    later = np.maximum.accumulate(start + shift - place)
    latest = END - 3 * 3600 + shift - place
    return np.minimum.accumulate(np.minimum(later, latest)[::-1])[::-1] + place - shift


def _repeats(person: Ints, aim: Ints, people: People, random: np.random.Generator) -> Ints:
    """For each session, the earlier one that it repeats, else itself, by a walk back through the history."""
    number = np.arange(len(person))
    first = (np.cumsum(people.sessions) - people.sessions)[person]
    earlier = first + (random.random(len(person)) * (number - first)).astype(np.int64)
    back = (number > first) & (random.random(len(person)) < _COME_BACK)
    accepted = random.random(len(person))
    # Whether one comes back depends on what one would come back to, which may itself come back to something.
    target = np.where(back, earlier, number)
    while True:
        deeper = target[target]
        if np.array_equal(deeper, target):
            break
        target = deeper
    return np.where(accepted < _COME_BACK_TO[aim[target]], target, number)


def _interests(people: People, person: Ints, start: Ints, random: np.random.Generator) -> Ints:
    """An interest that the person has at that time, the first ones more often; or -1 for something of the moment."""
    share: Floats = random.random(len(person))
    chosen = (share**1.6 * people.interests[person]).astype(np.int64)
    day = (start - START) / DAY
    lasting: Flags = (people.begins[person, chosen] <= day) & (day <= people.ends[person, chosen])
    lasting &= random.random(len(person)) >= _OF_THE_MOMENT
    return np.where(lasting, chosen, -1)


DAY = 86_400
DAYS = 92
START = int(np.datetime64("2006-03-01T00:00:00").astype("datetime64[s]").astype(np.int64))
END = START + DAYS * DAY
MOST_INTERESTS = 6
FAVOURITES = 4
_LASTING = 0.65  # the share of interests that a person had before the log begins and has when it ends
_PASSING_DAYS = 12.0
_WITH_CONDITION = 0.08
_MOST_SESSIONS = 900
_SESSIONS_MEDIAN, _SESSIONS_SPREAD = 5.6, 1.43


@dataclass(frozen=True)
class People:
    """One row for each person; interests have MOST_INTERESTS columns, of which the first `interests` are held."""

    sessions: Ints
    given: Ints
    surname: Ints
    town: Ints
    state: Ints
    hour: Floats  # of the day, at which most sessions begin
    first_day: Floats
    last_day: Floats
    interests: Ints
    topic: Ints
    begins: Floats
    ends: Floats
    favourite: Ints  # things that an interest turns around, FAVOURITES for each
    condition: Ints  # a disease's number among the things, or -1

    def __len__(self) -> int:
        return len(self.sessions)


def make_people(world: World, random: np.random.Generator, number: int, visits: int | None = None) -> People:
    """This number of people; with `visits`, each comes so often at most."""
    wanted = random.lognormal(np.log(_SESSIONS_MEDIAN), _SESSIONS_SPREAD, number)
    sessions = np.clip(np.ceil(wanted), 1, visits or _MOST_SESSIONS).astype(np.int64)
    # Who searches little does so within fewer days.
    length = np.clip(random.gamma(1.2, 6.0 * np.sqrt(sessions)), 0.5, DAYS)
    first_day = random.random(number) * (DAYS - length)
    interests = np.minimum(1 + random.poisson(1.8, number), MOST_INTERESTS)
    shape = (number, MOST_INTERESTS)
    topic = random.choice(len(world.topic_weights), shape, p=world.topic_weights / world.topic_weights.sum())
    lasting = random.random(shape) < _LASTING
    begins = first_day[:, None] + random.random(shape) * length[:, None]
    ends = begins + random.exponential(_PASSING_DAYS, shape)
    begins[lasting], ends[lasting] = 0.0, DAYS
    begins[:, 0], ends[:, 0] = 0.0, DAYS  # nobody is without any interest
    condition = np.where(
        random.random(number) < _WITH_CONDITION,
        world.diseases[(random.random(number) * len(world.diseases)).astype(np.int64)],
        -1,
    )
    ill = condition >= 0
    topic[ill, 0] = DISEASE
    favourite = world.thing_choice.of(
        np.repeat(topic[:, :, None], FAVOURITES, axis=2), random.random((*shape, FAVOURITES))
    )
    favourite[ill, 0, :2] = condition[ill, None]
    spans = world.spans
    return People(
        sessions=sessions,
        given=spans["given"].at(random.integers(0, len(spans["given"]), number)),
        surname=spans["surname"].at(random.integers(0, len(spans["surname"]), number)),
        town=spans["town"].at(random.integers(0, len(spans["town"]), number)),
        state=spans["state"].at(random.integers(0, len(spans["state"]), number)),
        hour=random.normal(16.0, 4.0, number),
        first_day=first_day,
        last_day=first_day + length,
        interests=interests,
        topic=topic,
        begins=begins,
        ends=ends,
        favourite=favourite,
        condition=condition,
    )
