"""Typed queries: a first query for each aim, then refinements, reformulations, slips and other successors.

A query is a row of pieces: two places before its core, three for the core, four after it. Q+R fills places after
the core, R+Q before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.synthetic.heavy_tails import Flags, Floats, Ints
from querycloak.synthetic.people import (
    EVERYDAY,
    FAVOURITES,
    MOST_QUERIES,
    ODD,
    PERSON,
    PLACE,
    SITE,
    TAIL_SITE,
    THING,
    People,
    PlannedSessions,
)
from querycloak.synthetic.world import World

_BLANK = ord(" ")


def texts_of(world: World, queries: TypedQueries) -> pa.Array:
    """The text of each query."""
    columns = []
    for place in range(PLACES):
        piece = queries.pieces[:, place]
        text = world.texts.take(pa.array(piece))
        within = queries.glued if CORE < place <= AFTER else np.zeros(len(piece), np.bool_)
        blank = pc.if_else(pa.array((piece > 0) & ~within), " ", "")
        columns += [blank, text]
    joined = pc.utf8_ltrim_whitespace(pc.binary_join_element_wise(*columns, ""))
    return slipped(joined, queries.slip)


def slipped(texts: pa.Array, slip: Ints) -> pa.Array:
    """The texts with a letter left out or two swapped where there is a slip, by its number."""
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    letters = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].copy()
    offsets = offsets - offsets[0]
    lengths = np.diff(offsets)
    rows = np.flatnonzero((slip > 0) & (lengths > 4))
    place = offsets[rows] + 1 + slip[rows] % (lengths[rows] - 2)
    inside = (letters[place] != _BLANK) & (letters[place + 1] != _BLANK)
    rows, place = rows[inside], place[inside]
    swapped = slip[rows] // 64 % 2 == 0
    pairs = place[swapped]
    letters[pairs], letters[pairs + 1] = letters[pairs + 1].copy(), letters[pairs].copy()
    kept = np.ones(len(letters), np.bool_)
    kept[place[~swapped]] = False
    shorter = np.zeros(len(texts), np.int64)
    shorter[rows[~swapped]] = 1
    starts = np.concatenate([[0], np.cumsum(lengths - shorter)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(starts), pa.py_buffer(letters[kept]))


PLACES = 9
CORE = 2  # the first place of the core
AFTER = 5
_ADDED = np.array([0.31, 0.185, 0.145, 0.165, 0.10, 0.095])  # how many words come with a thing: none to five
_SHARED_MODIFIER = (0.76, 0.25)  # the chance that an added word is one that many add: with one word, with several
# Of added words, the share below the first number are nouns of the language; each kind begins where its number says.
_OTHER_WORDS = {"given": 0.31, "surname": 0.34, "town": 0.41, "state": 0.47, "number": 0.53, "site": 0.59}
_FUNCTION_WORDS, _MODIFIERS = 0.67, 0.86
_BEFORE = 0.3  # the chance that an added word goes before the core
_SLIP = 0.045
_CORRECTED = 0.6
_NEW, _REFINE, _REPLACE, _SIBLING, _HEAD, _BACK = range(6)
_STEPS = np.array([0.20, 0.34, 0.20, 0.14, 0.06, 0.06])


@dataclass(frozen=True)
class TypedQueries:
    """One row for each query as typed, ordered by session and place in it."""

    session: Ints
    place: Ints
    pieces: Ints  # PLACES columns
    glued: Flags  # the core's pieces stand without blanks between them
    thing: Ints  # among the world's things, or -1
    site: Ints  # among the world's sites, or -1
    aim: Ints
    slip: Ints  # 0, or what goes wrong in typing

    def __len__(self) -> int:
        return len(self.session)

    def take(self, rows: Ints | Flags) -> TypedQueries:
        """Some of them."""
        return TypedQueries(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


class Typist:
    """Types the queries of sessions, step after step for all sessions at once."""

    def __init__(self, world: World, people: People, sessions: PlannedSessions, random: np.random.Generator) -> None:
        self.world, self.people, self.sessions, self.random = world, people, sessions, random

    def all_queries(self) -> TypedQueries:
        """Every query of every session."""
        first = self._first()
        steps, current = [first], first
        active = np.arange(len(self.sessions))
        for place in range(1, MOST_QUERIES):
            staying = self.sessions.queries[active] > place
            active, current = active[staying], current.take(staying)
            if not len(active):
                break
            current = self._again(active, self._next(current, first.take(active), place))
            steps.append(current)
        joined = TypedQueries(
            *(np.concatenate([getattr(s, name) for s in steps]) for name in TypedQueries.__dataclass_fields__)
        )
        return joined.take(np.lexsort((joined.place, joined.session)))

    def _first(self) -> TypedQueries:
        sessions = self.sessions
        fresh = self._fresh(np.arange(len(sessions)), sessions.aim, sessions.interest)
        again = fresh.take(sessions.repeats)
        # A slip is made anew each time.
        return TypedQueries(**{**again.__dict__, "session": fresh.session, "slip": fresh.slip})

    def _again(self, active: Ints, current: TypedQueries) -> TypedQueries:
        """The current queries; sessions that repeat another one to its end take over its query at this place."""
        source = np.where(self.sessions.wholly[active], self.sessions.repeats[active], active)
        # The session repeated has as many queries, so it is active too; both are in ascending order.
        again = current.take(np.searchsorted(active, source))
        return TypedQueries(**{**again.__dict__, "session": current.session, "slip": current.slip})

    def _next(self, last: TypedQueries, first: TypedQueries, place: int) -> TypedQueries:
        step = self.random.choice(len(_STEPS), len(last), p=_STEPS)
        step[(step == _BACK) & (place == 1)] = _REFINE
        step[np.isin(last.aim, (SITE, TAIL_SITE, EVERYDAY, ODD)) & (step < _BACK)] = _NEW
        corrected = (last.slip > 0) & (self.random.random(len(last)) < _CORRECTED)
        step[corrected] = -1  # the same again, without the slip
        pieces, thing, site, aim = last.pieces.copy(), last.thing.copy(), last.site.copy(), last.aim.copy()
        glued = last.glued.copy()
        pieces[np.isin(step, (_REPLACE, _HEAD))] = _bare(pieces[np.isin(step, (_REPLACE, _HEAD))])
        adding = np.isin(step, (_REFINE, _REPLACE))
        pieces[adding] = self._added(pieces[adding], thing[adding], np.ones(int(adding.sum()), np.int64))
        other = (step == _NEW) | (step == _SIBLING)
        if other.any():
            # A sibling stays with the aim and the interest; what is new need not.
            wanted = np.where(step == _SIBLING, aim, self.random.choice(aim, len(aim)))[other]
            made = self._fresh(last.session[other], wanted, self.sessions.interest[last.session[other]])
            pieces[other], thing[other], site[other] = made.pieces, made.thing, made.site
            aim[other], glued[other] = made.aim, made.glued
        back = step == _BACK
        pieces[back], thing[back], site[back] = first.pieces[back], first.thing[back], first.site[back]
        aim[back], glued[back] = first.aim[back], first.glued[back]
        slip = np.where(corrected, 0, self._slips(len(last)))
        return TypedQueries(last.session, np.full(len(last), place), pieces, glued, thing, site, aim, slip)

    def _fresh(self, session: Ints, aim: Ints, interest: Ints) -> TypedQueries:
        """A query to begin with, for each aim."""
        number = len(session)
        pieces = np.zeros((number, PLACES), np.int64)
        thing, site = np.full(number, -1), np.full(number, -1)
        person = self.sessions.person[session]
        makers = {
            SITE: self._sites,
            TAIL_SITE: self._tail_sites,
            EVERYDAY: self._everyday,
            PERSON: self._persons,
            PLACE: self._places,
            ODD: self._odd,
        }
        for kind, make in makers.items():
            rows = np.flatnonzero(aim == kind)
            pieces[rows], site[rows] = make(person[rows])
        rows = np.flatnonzero(aim == THING)
        thing[rows] = self._things(person[rows], interest[rows])
        pieces[rows, CORE] = self.world.things.first + thing[rows]
        added = self.random.choice(len(_ADDED), len(rows), p=_ADDED / _ADDED.sum())
        pieces[rows] = self._added(pieces[rows], thing[rows], added)
        glued = np.isin(aim, (SITE, TAIL_SITE, ODD))
        return TypedQueries(session, np.zeros(number, np.int64), pieces, glued, thing, site, aim, self._slips(number))

    def _slips(self, number: int) -> Ints:
        return np.where(self.random.random(number) < _SLIP, self.random.integers(1, 1 << 30, number), 0)

    def _things(self, person: Ints, interest: Ints) -> Ints:
        """Subject of an interest, or another of its topic, or of any topic."""
        number = len(person)
        passing = self.random.choice(
            len(self.world.topic_weights), number, p=self.world.topic_weights / self.world.topic_weights.sum()
        )
        topic = np.where(interest >= 0, self.people.topic[person, interest], passing)
        any_thing = self.world.thing_choice.of(topic, self.random.random(number))
        favourite = self.people.favourite[person, interest, self.random.integers(0, FAVOURITES, number)]
        return np.where((interest >= 0) & (self.random.random(number) < 0.55), favourite, any_thing)

    def _sites(self, person: Ints) -> tuple[Ints, Ints]:
        pieces, share = _rows(person), self.random.random(len(person))
        site = self.world.site_choice.of(np.zeros(len(person), np.int64), self.random.random(len(person)))
        pieces[:, CORE + 1] = self.world.spans["site"].first + site
        self._as_address(pieces, site, share)
        return pieces, site

    def _tail_sites(self, person: Ints) -> tuple[Ints, Ints]:
        """Two words run together: there is no end of such names."""
        pieces, share = _rows(person), self.random.random(len(person))
        first, second = self._nouns(len(person)), self._nouns(len(person))
        pieces[:, CORE + 1], pieces[:, CORE + 2] = first, second
        as_address = share < 0.75
        pieces[as_address, CORE] = np.where(share[as_address] < 0.45, self.world.spans["www"].first, 0)
        pieces[as_address, AFTER] = self.world.spans["ending"].at(first[as_address] + second[as_address])
        return pieces, np.full(len(person), -1)

    def _as_address(self, pieces: Ints, site: Ints, share: Floats) -> None:
        pieces[share < 0.55, CORE + 2] = self.world.spans["ending"].at(site[share < 0.55])
        pieces[share < 0.28, CORE] = self.world.spans["www"].first

    def _everyday(self, person: Ints) -> tuple[Ints, Ints]:
        pieces = _rows(person)
        chosen = self.world.everyday_choice.of(np.zeros(len(person), np.int64), self.random.random(len(person)))
        pieces[:, CORE] = self.world.spans["everyday"].first + chosen
        in_town = self.random.random(len(person)) < 0.12
        pieces[in_town, AFTER] = self.people.town[person[in_town]]
        return pieces, np.full(len(person), -1)

    def _persons(self, person: Ints) -> tuple[Ints, Ints]:
        pieces, number = _rows(person), len(person)
        pieces[:, CORE] = self.world.spans["given"].at(self.random.integers(0, 1 << 30, number))
        pieces[:, CORE + 1] = self.world.spans["surname"].at(self.random.integers(0, 1 << 30, number))
        somewhere = self.random.random(number) < 0.3
        pieces[somewhere, AFTER] = self.people.town[person[somewhere]]
        return pieces, np.full(number, -1)

    def _places(self, person: Ints) -> tuple[Ints, Ints]:
        pieces, number = _rows(person), len(person)
        near = self.random.random(number) < 0.7
        far = self.world.spans["town"].at(
            (len(self.world.spans["town"]) ** self.random.random(number)).astype(np.int64)
        )
        pieces[:, CORE] = np.where(near, self.people.town[person], far)
        with_state = self.random.random(number) < 0.5
        pieces[with_state, CORE + 1] = self.people.state[person[with_state]]
        wanted = self.random.random(number) < 0.75
        pieces[wanted, AFTER] = self._modifiers(int(wanted.sum()))
        return pieces, np.full(number, -1)

    def _odd(self, person: Ints) -> tuple[Ints, Ints]:
        """A single word of the language, a surname, or a code."""
        pieces, number = _rows(person), len(person)
        kind = self.random.random(number)
        pieces[:, CORE] = np.where(
            kind < 0.5, self._nouns(number), self.world.spans["surname"].at(self.random.integers(0, 1 << 30, number))
        )
        code = kind > 0.7
        pieces[code, CORE] = self.world.spans["state"].at(self.random.integers(0, 1 << 30, int(code.sum())))
        pieces[code, CORE + 1] = self.world.spans["number"].at(self.random.integers(0, 1 << 30, int(code.sum())))
        return pieces, np.full(number, -1)

    def _added(self, pieces: Ints, thing: Ints, words: Ints) -> Ints:
        """Rows with this many more words, before or after the core, where there is room."""
        pieces = pieces.copy()
        for word in range(int(words.max(initial=0))):
            rows = np.flatnonzero(words > word)
            shared = self.random.random(len(rows)) < np.where(words[rows] == 1, *_SHARED_MODIFIER)
            shared &= thing[rows] >= 0
            new = self._any_word(len(rows))
            new[shared] = self.world.modifier_of(thing[rows][shared], self.random.random(int(shared.sum())))
            before = self.random.random(len(rows)) < _BEFORE
            for side, places in ((before, (1, 0)), (~before, range(AFTER, PLACES))):
                left = rows[side]
                fill = new[side]
                for place in places:
                    empty = pieces[left, place] == 0
                    pieces[left[empty], place] = fill[empty]
                    left, fill = left[~empty], fill[~empty]
        return pieces

    def _any_word(self, number: int) -> Ints:
        spans = self.world.spans
        kinds = self.random.random(number)
        drawn = self.random.integers(0, 1 << 30, number)
        words = self._nouns(number)
        for kind, least in _OTHER_WORDS.items():
            words = np.where(kinds >= least, spans[kind].at(drawn), words)
        function = self.world.function_choice.of(np.zeros(number, np.int64), self.random.random(number))
        words = np.where(kinds >= _FUNCTION_WORDS, spans["function"].first + function, words)
        return np.where(kinds >= _MODIFIERS, self._modifiers(number), words)

    def _nouns(self, number: int) -> Ints:
        chosen = self.world.noun_choice.of(np.zeros(number, np.int64), self.random.random(number))
        return self.world.spans["noun"].first + chosen

    def _modifiers(self, number: int) -> Ints:
        chosen = self.world.modifier_choice.of(np.zeros(number, np.int64), self.random.random(number))
        return self.world.spans["modifier"].first + chosen


def _rows(person: Ints) -> Ints:
    return np.zeros((len(person), PLACES), np.int64)


def _bare(pieces: Ints) -> Ints:
    bare = pieces.copy()
    bare[:, :CORE] = 0
    bare[:, AFTER:] = 0
    return bare
