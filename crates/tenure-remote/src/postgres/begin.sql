-- The beginning of `init`: what the rest is done under. `@@` stands for the schema's quoted name, `@version@` for the
-- version of the tables and functions.

do $$
begin
    if to_regnamespace('@@') is null then -- Who may not create a schema may use one that is there.
        create schema @@;
    end if;
end $$;

-- One row: what this schema is, and from where its numbers count.
create table if not exists @@.meta (
    one boolean primary key default true check (one),
    version integer not null,           -- of the tables and functions
    oldest_writer integer not null,     -- clients that speak an older version are refused
    base bigint not null,               -- epoch = base + timeline
    timeline integer not null,          -- the newest WAL timeline that was seen; 0: it cannot be read
    cluster bigint not null,            -- the identifier of the database cluster; 0: it cannot be read
    started timestamptz                 -- when the server was started that these are of
);

do $$
declare
    m @@.meta;
    timeline_now integer := 0;
    cluster_now bigint := 0;
begin
    begin
        timeline_now := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer;
    exception when others then
        null; -- A server that hides it. `check` reports it.
    end;
    begin
        select system_identifier into cluster_now from pg_control_system();
    exception when others then
        null;
    end;
    insert into @@.meta (version, oldest_writer, base, timeline, cluster)
        values (@version@, @version@, case when timeline_now = 0 then 1 else 0 end, timeline_now, cluster_now)
        on conflict do nothing; -- The first epoch is 1.
    select * into strict m from @@.meta for update;
    if m.version > @version@ then
        raise exception using errcode = 'TN001',
            message = format('the schema has version %s, this client speaks version %s', m.version, @version@);
    end if;
    update @@.meta set version = @version@;
end $$;
