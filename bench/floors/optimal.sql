-- What `querycloak release optimal` must count, by DuckDB alone, noise left out: as clicks.sql for the first 256 pairs of
-- each user; then how many of the pairs that come out users hold, and which two of the first four together.
CREATE TEMP TABLE held AS
SELECT "user", query, url, min(epoch_us(time) * 1024 + least(coalesce(rank, 1023), 1023)) AS earliest
FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
    'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'})
WHERE url IS NOT NULL GROUP BY "user", query, url;

CREATE TEMP TABLE beyond AS SELECT "user" FROM held GROUP BY "user" HAVING count(*) > 256;

CREATE TEMP TABLE first AS
SELECT * FROM held SEMI JOIN beyond USING ("user")
QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url) <= 256;

CREATE TEMP VIEW bounded AS SELECT * FROM held ANTI JOIN beyond USING ("user") UNION ALL SELECT * FROM first;

CREATE TEMP TABLE shared AS
SELECT part FROM (
    SELECT part, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM (SELECT DISTINCT "user", substr(sha256('a secret of thirty-two characters' || query), 1, 6) AS part FROM bounded)
) GROUP BY part HAVING sum(weight) > 768;

CREATE TEMP TABLE bucketed AS
SELECT "user", query, url, substr(sha256('a secret of thirty-two characters' || query || chr(9) || url), 1, 6) AS bucket
FROM bounded WHERE substr(sha256('a secret of thirty-two characters' || query), 1, 6) IN (SELECT part FROM shared);

CREATE TEMP TABLE sharing AS SELECT "user", bucket FROM bucketed GROUP BY "user", bucket HAVING count(*) > 1;

CREATE TEMP TABLE heavy AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight FROM bucketed
) GROUP BY bucket HAVING sum(weight) > 351;

CREATE TEMP TABLE heavier AS
SELECT bucket FROM (
    SELECT bucket, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed JOIN heavy USING (bucket)
) GROUP BY bucket HAVING sum(weight) > 878;

CREATE TEMP TABLE chosen AS
SELECT query, url, row_number() OVER () AS pair FROM (
    SELECT query, url, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed JOIN heavier USING (bucket)
) GROUP BY query, url HAVING sum(weight) > 1941;

CREATE TEMP TABLE counted AS
SELECT "user", pair, row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url) AS place
FROM bounded JOIN chosen USING (query, url) QUALIFY place <= 16;

SELECT keys, count(*) FROM (SELECT count(*) AS keys FROM counted GROUP BY "user") GROUP BY keys;

SELECT count(*) AS keys, sum(n) AS volume FROM (
    SELECT one.pair, other.pair, count(*) AS n
    FROM counted AS one JOIN counted AS other ON one."user" = other."user" AND one.pair < other.pair
    WHERE one.place <= 4 AND other.place <= 4
    GROUP BY one.pair, other.pair
)
