-- What the default of `querycloak release clicks` must compute, by DuckDB alone, noise left out: each pair of a user once;
-- how many pairs users have, which decides the bound; the first 256 pairs of those who have more; a scouting round over the
-- weights of queries; for the pairs that it leaves, two rounds over the weights of pairs, with a digest of each; the
-- weights of pairs; the users of those that come out.
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

CREATE TEMP TABLE queries AS
WITH asked AS (SELECT DISTINCT "user", query FROM bounded),
weights AS (SELECT "user", floor(256 / sqrt(count(*)))::BIGINT AS weight FROM asked GROUP BY "user")
SELECT query, n, substr(sha256('a secret of thirty-two characters' || query), 1, 32) AS digest FROM (
    SELECT query, sum(weight) AS n FROM asked JOIN weights USING ("user") GROUP BY query
);

CREATE TEMP TABLE left_over AS
SELECT "user", query, url FROM bounded SEMI JOIN (SELECT query FROM queries WHERE n > 714) USING (query);

CREATE TEMP TABLE pairs AS
SELECT query, url, n, substr(sha256('a secret of thirty-two characters' || query || chr(9) || url), 1, 32) AS digest FROM (
    SELECT query, url, sum(weight) AS n FROM (
        SELECT query, url, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight FROM left_over
    ) GROUP BY query, url
);

CREATE TEMP TABLE heavy_pairs AS
SELECT query, url, n, substr(sha256('a secret of thirty-two characters' || query || chr(9) || url), 1, 32) AS digest FROM (
    SELECT query, url, sum(weight) AS n FROM (
        SELECT query, url, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
        FROM left_over SEMI JOIN (SELECT query, url FROM pairs WHERE n > 327) USING (query, url)
    ) GROUP BY query, url
);

CREATE TEMP TABLE chosen AS
SELECT query, url FROM (
    SELECT query, url, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM left_over SEMI JOIN (SELECT query, url FROM heavy_pairs WHERE n > 817) USING (query, url)
) GROUP BY query, url HAVING sum(weight) > 1779;

SELECT count(*) AS keys, sum(n) AS volume FROM (
    SELECT query, url, count(*) AS n FROM (
        SELECT query, url FROM bounded SEMI JOIN chosen USING (query, url)
        QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url) <= 16
    ) GROUP BY query, url
)
