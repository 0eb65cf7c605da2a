"""Words that people search with: those of the language, and invented names of people, places, brands and sites.

WordNet's nouns come from `text/`; what stands here is what a noun taxonomy lacks. Names are invented by rule, from
a fixed stream: a real person with one of them has it by chance.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def _words(text: str) -> list[str]:
    return text.split()


FUNCTION_WORDS = _words("""
    in of for the and to a on with how what is from by at my i do you can where who when are your not out up it
    does be free get make or about without between during after before near all
""")

MODIFIERS = _words("""
    pictures lyrics free online new cheap best information sale county map reviews home school games video music
    history photos jobs car show company recipe recipes symptoms treatment price list book american center parts
    used wholesale store club real estate hotel service phone number address prices rentals schedule tickets
    review clip art tabs quotes codes cheats software download coupons design plans supplies equipment training
    classes facts causes types definition kids women men baby girls black white red blue small big old vintage
    antique custom discount rules tips ideas poems crafts costumes association society magazine museum club camp
    tour insurance law rights laws medical surgery diet exercise side effects therapy support group pain chart
    guide manual repair replacement accessories dealers auction value gifts cards songs album movie trailer cast
    episodes biography wallpaper posters clothes shoes shirts bags jewelry hair makeup nails tattoos furniture
    kitchen bathroom garden house apartments homes land vacation travel flights cruise resort beach restaurants
    bar news weather forecast radio station live cam results scores stats team players league championship draft
    coach uniforms field college university degree scholarship test exam lesson plan worksheets project science
    fair research paper essay journal article study statistics population government department office form
    application license permit records birth certificate death marriage divorce genealogy family tree obituary
    funeral church bible prayer saint meaning names dictionary translation english spanish french german chinese
    italian
""")

FORMS_OF_STATE = _words("""
    alabama alaska arizona arkansas california colorado connecticut delaware florida georgia hawaii idaho
    illinois indiana iowa kansas kentucky louisiana maine maryland massachusetts michigan minnesota mississippi
    missouri montana nebraska nevada ohio oklahoma oregon pennsylvania tennessee texas utah vermont virginia
    washington wisconsin wyoming al ak az ar ca co ct de fl ga ia il ks ky la md mi mn mo ms nc nd ne nh nj nm
    nv ny oh ok pa sc sd tn tx ut va vt wa wi wv wy
""")

# What everybody asks now and then, the most frequent first; `weather` and `weather channel` are AOL's own heads.
EVERYDAY = (
    "weather", "maps", "white pages", "dictionary", "yellow pages", "weather channel", "horoscopes", "lottery results",
    "driving directions", "people search", "song lyrics", "free games", "online games", "baby names", "movie times",
    "area codes", "zip codes", "tv guide", "white house", "maps and directions", "phone book", "stock quotes",
    "currency converter", "real estate", "cheap flights", "car insurance", "airline tickets", "free music",
    "used cars", "credit report", "craft ideas", "thesaurus", "encyclopedia", "translator", "calendar", "calculator",
    "jokes", "quotes", "wallpaper", "recipes", "lyrics", "love poems", "tattoos", "hairstyles", "prom dresses",
    "easter", "mothers day", "memorial day", "tax forms", "social security", "las vegas", "new york", "florida",
    "daylight savings time", "unclaimed money", "public records", "birthday cards", "greeting cards", "coloring pages",
    "clip art", "crossword puzzle", "sudoku", "solitaire", "poker", "bingo", "ringtones", "screensavers", "spyware",
)  # fmt: skip

GIVEN_NAMES = _words("""
    james john robert michael william david richard joseph thomas charles daniel matthew anthony mark donald
    steven paul andrew joshua kenneth kevin brian george edward ronald timothy jason jeffrey ryan jacob gary
    nicholas eric jonathan stephen larry justin scott brandon benjamin samuel gregory frank alexander raymond
    patrick jack dennis jerry tyler mary patricia jennifer linda elizabeth barbara susan jessica sarah karen
    lisa nancy betty margaret sandra ashley kimberly emily donna michelle carol amanda dorothy melissa deborah
    stephanie rebecca sharon laura cynthia kathleen amy angela shirley anna brenda pamela emma nicole helen
    samantha katherine christine debra rachel carolyn janet catherine maria heather diane ruth julie olivia
    joyce virginia victoria kelly lauren
""")

TOWN_BEGINNINGS = _words("""
    ash oak mill spring green fair lake river cedar maple stone bridge clear wood elm pine rock silver brook
    glen high low north south east west new old black white red gold king queen bishop abbots marl thorn hazel
    holly ivy rose lark swan fox deer bear wolf eagle hawk raven iron copper salt sand clay mar whit wal win wes
    har ham hart har der dun lin lan lex mon nor pem quin rad sel tav ul ver wy york zeb
""")
TOWN_ENDINGS = _words("""
    ford ton ville dale brook field wood port view burg haven mont land side worth bury ham ley well gate shire
    cliff crest hill ridge grove falls springs creek park mere stead
""")
SURNAME_ENDINGS = _words("""
    son man er field ley wood ski ez ini berg stein ton well worth sen owski ard ett ick ows
""")
ONSETS = _words("""
    b c d f g h j k l m n p r s t v w z br cl dr fl gr pl st tr
""")
NUCLEI = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ea", "ou"]
CODAS = ["", "", "", "", "", "", "l", "n", "r", "s", "m", "x"]
SYLLABLES = [onset + nucleus + coda for onset in ONSETS for nucleus in NUCLEI for coda in CODAS]
SITE_ENDINGS = (".com", ".com", ".com", ".com", ".com", ".net", ".org", ".org", ".edu", ".gov")


def surnames(number: int) -> list[str]:
    """Different invented surnames."""
    return _different(number, 101, SYLLABLES, ["", "", "", *SYLLABLES[:24]], SURNAME_ENDINGS)


def brands(number: int) -> list[str]:
    """Different invented names of brands and sites."""
    open_syllables = [onset + nucleus for onset in ONSETS for nucleus in NUCLEI]
    return _different(number, 102, open_syllables, SYLLABLES, ["", *open_syllables[: 2 * len(NUCLEI)]])


def towns() -> list[str]:
    """Invented towns, in a fixed shuffled order."""
    names = sorted({first + last for first in TOWN_BEGINNINGS for last in TOWN_ENDINGS if first != last})
    order = np.random.Generator(np.random.Philox(103)).permutation(len(names))
    return [names[place] for place in order]


def _different(number: int, stream: int, *parts: list[str]) -> list[str]:
    """This number of different names of one part from each list."""
    random = np.random.Generator(np.random.Philox(stream))
    drawn = [pa.array(part).take(pa.array(random.integers(0, len(part), 2 * number))) for part in parts]
    words: list[str] = pc.unique(pc.binary_join_element_wise(*drawn, "")).to_pylist()
    return words[:number]
