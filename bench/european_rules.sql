-- What is public of the Commission's decision of 16 July 2026 (case DMA.100209), on a log of users, times, queries and urls.
-- The four numbers are assumptions: those of the annex are not known to us.
create table rows as select "user", time, query, rank, url from read_parquet($log);
create table searches as select distinct "user", time, query from rows;
create table words as select distinct query, unnest(string_split(query, ' ')) as word from (select distinct query from searches);
create table rare as
  select word from (select distinct "user", word from searches join words using (query)) group by word having count(*) < $term_users;
create table kept as
  select query from words group by query having count(*) <= $most_words
  except select query from words semi join rare using (word);
create table steps as
  select *, epoch_us(time) - lag(epoch_us(time)) over (partition by "user" order by time, query) > $gap_minutes * 60000000 as pauses
  from searches;
create table numbered as
  select "user", time, query, sum(case when pauses is null or pauses then 1 else 0 end)
    over (partition by "user" order by time, query rows unbounded preceding) as visit
  from steps;
create table visits as
  select *, 'visit-' || left($secret, 8) || '-' || dense_rank() over (order by md5("user" || ' ' || visit || $secret), "user", visit) as name,
    row_number() over (partition by "user", visit order by time, query) as place
  from numbered;
-- What anybody's visits are, and what the rule leaves of them.
create view whole as
  select v.name as "user", v.time, v.query, r.rank, r.url from visits v join rows r using ("user", time, query);
create table released as
  select v.name as "user", v.query, r.url from visits v join rows r using ("user", time, query) semi join kept using (query)
  where v.place <= $most_searches;
create view records as select "user", query, url from rows semi join kept using (query);
