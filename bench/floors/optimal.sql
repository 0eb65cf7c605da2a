-- What `querycloak release optimal` must count, by DuckDB alone, noise left out: as clicks.sql for the first 256 pairs of
-- each user; then how many of the pairs that come out users hold, and which two of them together.
CREATE TEMP TABLE held AS
SELECT * FROM (
    SELECT "user", query, url, min(epoch_us(time) * 1024 + least(coalesce(rank, 1023), 1023)) AS earliest
    FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
        'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'})
    WHERE url IS NOT NULL GROUP BY "user", query, url
) QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url) <= 256;

CREATE TEMP TABLE shared AS
SELECT part FROM (
    SELECT part, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM (SELECT DISTINCT "user", substr(sha256('a secret of thirty-two characters' || query), 1, 6) AS part FROM held)
) GROUP BY part HAVING sum(weight) > 714;

CREATE TEMP TABLE bucketed AS
SELECT "user", query, url, substr(sha256('a secret of thirty-two characters' || query || chr(9) || url), 1, 6) AS bucket
FROM held WHERE substr(sha256('a secret of thirty-two characters' || query), 1, 6) IN (SELECT part FROM shared);

CREATE TEMP TABLE heavy AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight FROM bucketed
) GROUP BY bucket HAVING sum(weight) > 327;

CREATE TEMP TABLE heavier AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed JOIN heavy USING (bucket)
) GROUP BY bucket HAVING sum(weight) > 817;

CREATE TEMP TABLE chosen AS
SELECT query, url, row_number() OVER () AS pair FROM (
    SELECT query, url, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed JOIN heavier USING (bucket)
) GROUP BY query, url HAVING sum(weight) > 1779;

CREATE TEMP TABLE counted AS
SELECT "user", pair FROM held JOIN chosen USING (query, url)
QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url) <= 16;

SELECT keys, count(*) FROM (SELECT count(*) AS keys FROM counted GROUP BY "user") GROUP BY keys;

SELECT count(*) AS keys, sum(n) AS volume FROM (
    SELECT one.pair, other.pair, count(*) AS n
    FROM counted AS one JOIN counted AS other ON one."user" = other."user" AND one.pair < other.pair
    GROUP BY one.pair, other.pair
)
