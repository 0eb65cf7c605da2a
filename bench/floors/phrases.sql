-- What the default of `querycloak release phrases` must compute, by DuckDB alone, noise left out: each query of a user once;
-- its words; for each of three levels the candidates in each distinct text, the users who hold them, the first 256 of
-- those who hold more, two rounds over the weights of buckets, the weights of keys, the users of those that come out.
-- Words are cut at blanks, which is less than Unicode's boundaries need.
CREATE TEMP TABLE held AS
SELECT "user", query, min(time) AS earliest
FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
    'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'})
WHERE query IS NOT NULL GROUP BY "user", query;

CREATE TEMP TABLE placed AS
SELECT query, parts, len(parts) AS number, unnest(range(1, len(parts) + 1)) AS place
FROM (SELECT query, string_split('^ ' || query || ' $', ' ') AS parts FROM (SELECT DISTINCT query FROM held))
WHERE len(parts) <= 34;

SELECT keys, count(*) FROM (
    SELECT least(sum(len(query) - len(replace(query, ' ', '')) + 1), 256) AS keys FROM held GROUP BY "user"
) GROUP BY keys;

CREATE TEMP TABLE keys_1 AS
SELECT DISTINCT query, parts[place] AS phrase FROM placed WHERE place > 1 AND place < number;

CREATE TEMP TABLE contributed_1 AS
SELECT "user", phrase, min(earliest) AS earliest FROM held JOIN keys_1 USING (query) GROUP BY "user", phrase;

CREATE TEMP TABLE beyond_1 AS SELECT "user" FROM contributed_1 GROUP BY "user" HAVING count(*) > 256;

CREATE TEMP TABLE bucketed_1 AS
SELECT "user", phrase, earliest, substr(sha256('a secret of thirty-two characters' || phrase), 1, 6) AS bucket FROM (
    SELECT * FROM contributed_1 ANTI JOIN beyond_1 USING ("user")
    UNION ALL
    SELECT * FROM contributed_1 SEMI JOIN beyond_1 USING ("user")
    QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, phrase) <= 256
);

CREATE TEMP TABLE heavy_1 AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight FROM bucketed_1
) GROUP BY bucket HAVING sum(weight) > 327;

CREATE TEMP TABLE heavier_1 AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed_1 JOIN heavy_1 USING (bucket)
) GROUP BY bucket HAVING sum(weight) > 817;

CREATE TEMP TABLE chosen_1 AS
SELECT phrase FROM (
    SELECT phrase, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed_1 JOIN heavier_1 USING (bucket)
) GROUP BY phrase HAVING sum(weight) > 3100;

CREATE TEMP TABLE counts_1 AS
SELECT phrase, count(*) AS n FROM (
    SELECT phrase FROM bucketed_1 SEMI JOIN chosen_1 USING (phrase)
    QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, phrase) <= 16
) GROUP BY phrase;

CREATE TEMP TABLE keys_2 AS
WITH known AS (
    SELECT query, place FROM placed SEMI JOIN chosen_1 ON parts[place] = phrase
    UNION ALL SELECT query, place FROM placed WHERE place = 1 OR place = number
),
pairs AS (
    SELECT query, parts, number, place FROM placed SEMI JOIN known USING (query, place)
    SEMI JOIN (SELECT query, place - 1 AS place FROM known) USING (query, place)
)
SELECT DISTINCT query, array_to_string(parts[place:place + 1], ' ') AS phrase FROM pairs WHERE number > 2
UNION SELECT DISTINCT query, array_to_string(parts, ' ') FROM pairs WHERE number = 3;

CREATE TEMP TABLE contributed_2 AS
SELECT "user", phrase, min(earliest) AS earliest FROM held JOIN keys_2 USING (query) GROUP BY "user", phrase;

CREATE TEMP TABLE beyond_2 AS SELECT "user" FROM contributed_2 GROUP BY "user" HAVING count(*) > 256;

CREATE TEMP TABLE bucketed_2 AS
SELECT "user", phrase, earliest, substr(sha256('a secret of thirty-two characters' || phrase), 1, 6) AS bucket FROM (
    SELECT * FROM contributed_2 ANTI JOIN beyond_2 USING ("user")
    UNION ALL
    SELECT * FROM contributed_2 SEMI JOIN beyond_2 USING ("user")
    QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, phrase) <= 256
);

CREATE TEMP TABLE heavy_2 AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight FROM bucketed_2
) GROUP BY bucket HAVING sum(weight) > 327;

CREATE TEMP TABLE heavier_2 AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed_2 JOIN heavy_2 USING (bucket)
) GROUP BY bucket HAVING sum(weight) > 817;

CREATE TEMP TABLE chosen_2 AS
SELECT phrase FROM (
    SELECT phrase, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed_2 JOIN heavier_2 USING (bucket)
) GROUP BY phrase HAVING sum(weight) > 3100;

CREATE TEMP TABLE counts_2 AS
SELECT phrase, count(*) AS n FROM (
    SELECT phrase FROM bucketed_2 SEMI JOIN chosen_2 USING (phrase)
    QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, phrase) <= 16
) GROUP BY phrase;

CREATE TEMP TABLE keys_3 AS
WITH known AS (
    SELECT query, place FROM placed SEMI JOIN chosen_2 ON array_to_string(parts[place:place + 1], ' ') = phrase
    WHERE place < number
),
runs AS (
    SELECT query, parts, number, place FROM placed SEMI JOIN known USING (query, place)
    SEMI JOIN (SELECT query, place - 1 AS place FROM known) USING (query, place)
)
SELECT DISTINCT query, array_to_string(parts[place:place + 2], ' ') AS phrase FROM runs WHERE place + 2 <= number
UNION SELECT DISTINCT query, array_to_string(parts, ' ') FROM runs WHERE number IN (4, 5) AND place = 1;

CREATE TEMP TABLE contributed_3 AS
SELECT "user", phrase, min(earliest) AS earliest FROM held JOIN keys_3 USING (query) GROUP BY "user", phrase;

CREATE TEMP TABLE beyond_3 AS SELECT "user" FROM contributed_3 GROUP BY "user" HAVING count(*) > 256;

CREATE TEMP TABLE bucketed_3 AS
SELECT "user", phrase, earliest, substr(sha256('a secret of thirty-two characters' || phrase), 1, 6) AS bucket FROM (
    SELECT * FROM contributed_3 ANTI JOIN beyond_3 USING ("user")
    UNION ALL
    SELECT * FROM contributed_3 SEMI JOIN beyond_3 USING ("user")
    QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, phrase) <= 256
);

CREATE TEMP TABLE heavy_3 AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight FROM bucketed_3
) GROUP BY bucket HAVING sum(weight) > 327;

CREATE TEMP TABLE heavier_3 AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed_3 JOIN heavy_3 USING (bucket)
) GROUP BY bucket HAVING sum(weight) > 817;

CREATE TEMP TABLE chosen_3 AS
SELECT phrase FROM (
    SELECT phrase, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed_3 JOIN heavier_3 USING (bucket)
) GROUP BY phrase HAVING sum(weight) > 3100;

CREATE TEMP TABLE counts_3 AS
SELECT phrase, count(*) AS n FROM (
    SELECT phrase FROM bucketed_3 SEMI JOIN chosen_3 USING (phrase)
    QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, phrase) <= 16
) GROUP BY phrase;

SELECT count(*) AS keys, sum(n) AS volume
FROM (SELECT * FROM counts_1 UNION ALL SELECT * FROM counts_2 UNION ALL SELECT * FROM counts_3)
