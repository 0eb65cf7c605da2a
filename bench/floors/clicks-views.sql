-- What `querycloak release clicks --by device --views` must compute, by DuckDB alone, noise left out: each viewed pair of a
-- user and device once, with its earliest view and whether it was clicked; the first 32 views of each user by rank; then
-- as for `clicks` (clicks.sql), with device in the key; the first 16 pairs of each user among those that come out, by bin
-- of ranks and by outcome.
CREATE TEMP TABLE held AS
SELECT "user", query, url, device, bool_or(clicked) AS clicked,
    min(epoch_us(time) * 1024 + least(rank, 1023)) AS earliest
FROM read_parquet($path) WHERE url IS NOT NULL AND rank >= 1 GROUP BY "user", query, url, device;

SELECT rank, clicked, count(*) FROM (
    SELECT rank, clicked FROM read_parquet($path) WHERE url IS NOT NULL AND rank BETWEEN 1 AND 20
    QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY time, rank, query, url) <= 32
) GROUP BY rank, clicked;

SELECT keys, count(*) FROM (SELECT least(count(*), 256) AS keys FROM held GROUP BY "user") GROUP BY keys;

CREATE TEMP TABLE beyond AS SELECT "user" FROM held GROUP BY "user" HAVING count(*) > 256;

CREATE TEMP TABLE first AS
SELECT * FROM held SEMI JOIN beyond USING ("user")
QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url, device) <= 256;

CREATE TEMP VIEW bounded AS SELECT * FROM held ANTI JOIN beyond USING ("user") UNION ALL SELECT * FROM first;

CREATE TEMP TABLE shared AS
SELECT part FROM (
    SELECT part, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM (SELECT DISTINCT "user", substr(sha256('a secret of thirty-two characters' || query), 1, 6) AS part FROM bounded)
) GROUP BY part HAVING sum(weight) > 714;

CREATE TEMP TABLE bucketed AS
SELECT "user", query, url, device,
    substr(sha256('a secret of thirty-two characters' || query || chr(9) || url || chr(9) || device), 1, 16) AS bucket
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
SELECT query, url, device FROM (
    SELECT query, url, device, floor(256 / sqrt(count(*) OVER (PARTITION BY "user")))::BIGINT AS weight
    FROM bucketed JOIN heavier USING (bucket)
) GROUP BY query, url, device HAVING sum(weight) > 1779;

SELECT count(*) AS cells, sum(n) AS volume FROM (
    SELECT query, url, device, bin, clicked, count(*) AS n FROM (
        SELECT query, url, device, clicked, earliest % 1024 AS bin FROM held SEMI JOIN chosen USING (query, url, device)
        QUALIFY row_number() OVER (PARTITION BY "user" ORDER BY earliest, query, url, device) <= 16
    ) GROUP BY query, url, device, bin, clicked
)
