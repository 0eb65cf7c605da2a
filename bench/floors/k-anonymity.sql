-- What `querycloak release k-anonymity --min-users 5` must compute, by DuckDB alone: the users of each pair.
SELECT count(*) AS keys, sum(users) AS volume FROM (
    SELECT query, url, count(DISTINCT "user") AS users
    FROM read_csv($path, delim = '\t', quote = '', escape = '', header = true, columns = {
        'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'})
    WHERE url IS NOT NULL GROUP BY query, url HAVING users >= 5
)
