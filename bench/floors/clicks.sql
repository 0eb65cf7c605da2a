-- What the default of `querycloak release clicks` must compute, by DuckDB alone, noise left out: each pair of a user once;
-- how many pairs users have, which decides the bound; the first 256 pairs of those who have more; a scouting round over the
-- weights of queries' buckets; for the pairs that it leaves, which of a user share a bucket, and two rounds over the
-- weights of buckets; the weights of pairs; the users of those that come out.
CREATE TEMP TABLE held AS
SELECT "user", query, url, min(epoch_us(time) * 1024 + least(coalesce(rank, 1023), 1023)) AS earliest
FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
    'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'})
WHERE url IS NOT NULL GROUP BY "user", query, url;

SELECT keys, count(*) FROM (SELECT least(count(*), 256) AS keys FROM held GROUP BY "user") GROUP BY keys;

CREATE TEMP TABLE beyond AS SELECT "user" FROM held GROUP BY "user" HAVING count(*) > 256;

CREATE TEMP TABLE first AS
SELECT * FROM held SEMI JOIN beyond USING ("user")
QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url) <= 256;

CREATE TEMP VIEW bounded AS SELECT * FROM held ANTI JOIN beyond USING ("user") UNION ALL SELECT * FROM first;

CREATE TEMP TABLE shared AS
SELECT part FROM (
    SELECT part, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM (SELECT DISTINCT "user", substr(sha256('a secret of thirty-two characters' || query), 1, 6) AS part FROM bounded)
) GROUP BY part HAVING sum(weight) > 714;

CREATE TEMP TABLE bucketed AS
SELECT "user", query, url, substr(sha256('a secret of thirty-two characters' || query || chr(9) || url), 1, 6) AS bucket
FROM bounded WHERE substr(sha256('a secret of thirty-two characters' || query), 1, 6) IN (SELECT part FROM shared);

CREATE TEMP TABLE sharing AS SELECT "user", bucket FROM bucketed GROUP BY "user", bucket HAVING count(*) > 1;

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
SELECT query, url FROM (
    SELECT query, url, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed JOIN heavier USING (bucket)
) GROUP BY query, url HAVING sum(weight) > 1779;

SELECT count(*) AS keys, sum(n) AS volume FROM (
    SELECT query, url, count(*) AS n FROM (
        SELECT query, url FROM bounded SEMI JOIN chosen USING (query, url)
        QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url) <= 16
    ) GROUP BY query, url
)
