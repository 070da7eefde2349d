-- What changes a store. Each call is one statement and one transaction. `@@` stands for the schema's quoted name.
--
-- 1. Rows of targets are locked before they are read, several of them in the order of their names. Then sessions.
--    In PL/pgSQL each statement sees what was committed before it, so what is read under a lock is current.
-- 2. A proof locks its row FOR KEY SHARE, a change of content FOR NO KEY UPDATE, a change of the hold FOR UPDATE: writes
--    under one guard do not wait for each other, and no such write is in flight when the hold has changed.
-- 3. A session or a lease is over by clock_timestamp() only. A session that was found to be over is deleted at once, so
--    that no renewal that comes at the same time can succeed.
-- 4. Every number that is given out is above (epoch << 36), and above all earlier ones of its target.

-- The epoch now, for a client that may write.
create or replace function @@.epoch(_client integer) returns bigint language plpgsql as $$
declare
    m @@.meta;
    timeline_now integer := 0;
begin
    select * into strict m from @@.meta;
    if _client < m.oldest_writer then
        raise exception using errcode = 'TN001',
            message = format('the schema has version %s, this client speaks version %s', m.version, _client);
    end if;
    if current_setting('synchronous_commit') in ('off', 'local') then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    if m.timeline <> 0 then
        timeline_now := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer;
    end if;
    if timeline_now = m.timeline and m.started = pg_postmaster_start_time() then
        return m.base + m.timeline;
    end if;
    return @@.new_epoch(timeline_now);
end $$;

-- Another server than the one that the numbers were given out by, or one that was started again.
create or replace function @@.new_epoch(_timeline integer) returns bigint language plpgsql as $$
declare
    m @@.meta;
    here bigint := 0;
begin
    select * into strict m from @@.meta for update;
    if m.cluster <> 0 then
        select system_identifier into here from pg_control_system();
    end if;
    if _timeline < m.timeline then
        m.base := m.base + m.timeline - _timeline + 1; -- Restored or upgraded: the timelines count anew.
    elsif here <> m.cluster and _timeline = m.timeline then
        m.base := m.base + 1; -- A dump that was restored.
    end if;
    update @@.meta set base = m.base, timeline = _timeline, cluster = here, started = pg_postmaster_start_time();
    if m.base + _timeline >= 131072 then
        raise exception using errcode = 'TN003', message = 'the numbers of this store are used up';
    end if;
    return m.base + _timeline;
end $$;

-- How commits reach standbys: `none` (no standby), `sync`, `async` (at least one is), `mixed`, or `hidden`.
create or replace function @@.replication() returns text language sql as $$
    select case
        when current_setting('synchronous_standby_names') <> '' then
            case when count(*) filter (where sync_state = 'async') > 0 then 'mixed' else 'sync' end
        when count(*) = 0 then 'none'
        when count(sync_state) = 0 then 'hidden'
        else 'async' end
    from pg_stat_replication where application_name not in ('pg_basebackup', 'pg_receivewal')
$$;

-- Whether a session has ended. Waits for a renewal that is on its way.
create or replace function @@.ended(_session text) returns boolean language plpgsql as $$
begin
    perform from @@.session where id = _session and expires > clock_timestamp();
    if found then
        return false;
    end if;
    delete from @@.session where id = _session and expires <= clock_timestamp();
    return not exists (select from @@.session where id = _session);
end $$;

-- The row of a target, locked. It is created if there is none.
create or replace function @@.enter(_name text) returns @@.target language plpgsql as $$
declare
    t @@.target;
    above bigint;
begin
    loop
        select * into t from @@.target where name = _name for update;
        exit when found;
        insert into @@.target (name) values (_name) on conflict (name) do nothing;
    end loop;
    if t.fence = 0 and t.changes = 0 and t.newest = 0 then
        select value into above from @@.floor;
        if above > 0 then
            update @@.target set fence = above, changes = above, newest = above
                where name = _name returning * into t;
        end if;
    end if;
    return t;
end $$;

-- The least fence of a hold that begins now: the epoch, and hundredths of a second since 2024 below it. A fence of another
-- store, of a schema that was dropped, or of a newer copy of the data is smaller or unknown, so it proves nothing here.
-- The clock only raises a fence; what makes fences grow is the row.
create or replace function @@.least_fence(_epoch bigint) returns bigint language sql as $$
    select (_epoch << 36) + least((1::bigint << 36) - 1,
        greatest(1, (extract(epoch from clock_timestamp()) * 100)::bigint - 170406720000))
$$;

-- Gives the hold of a target to a ticket. The row is locked, or `_if_free`: nothing is done unless the target is free, no
-- ticket waits, the request was not repeated, and the session lives. No write under an earlier hold is in flight then: its end waited for them.
create or replace function @@.grant_hold(
    _if_free boolean, _name text, _epoch bigint, _ticket text, _session text, _kind smallint, _ttl bigint,
    _token_sum bytea, _holder text, _recovered text
) returns @@.target language plpgsql as $$
declare
    t @@.target;
begin
    update @@.target set
        fence = greatest(fence + 1, @@.least_fence(_epoch)), kind = _kind, ticket = _ticket,
        session = case when _kind = 1 then _session end, holder = _holder, since = clock_timestamp(),
        expires = case when _kind = 2 then clock_timestamp() + _ttl * interval '1 millisecond' end,
        ttl = _ttl, token_sum = _token_sum, recovered = _recovered, barred = null
    where name = _name and (not _if_free or (kind = 0 and not queued and ended is distinct from _ticket
        and not exists (select from @@.receipt where id = _ticket)
        and (_session = '' or exists (
            select from @@.session where id = _session and @@.session.expires > clock_timestamp()))))
    returning * into t;
    return t;
end $$;

-- Passes a hold that is over to the oldest ticket whose session lives. The row is locked. Returns the row, whether it is
-- held now, and who has to be woken.
create or replace function @@.settle(
    inout t @@.target, _epoch bigint, out held boolean, out wake text[]
) language plpgsql as $$
declare
    q @@.ticket;
    abandoned text;
begin
    held := true;
    if t.kind = 1 then
        if not @@.ended(t.session) then
            return;
        end if;
        abandoned := t.holder;
    elsif t.kind = 2 and t.expires > clock_timestamp() then
        return;
    end if;
    held := false;
    if not t.queued then
        return;
    end if;
    loop
        select * into q from @@.ticket where target = t.id order by seq limit 1;
        if not found then
            update @@.target set queued = false where name = t.name returning * into t;
            return;
        end if;
        delete from @@.ticket where target = t.id and seq = q.seq;
        if not @@.ended(q.session) then
            t := @@.grant_hold(false, t.name, _epoch, q.id, q.session, q.kind, q.ttl, q.token_sum, q.holder, abandoned);
            held := true;
            wake := array[q.channel || ':' || q.id];
            return;
        end if;
    end loop;
end $$;

-- Ends the hold of a locked row and passes it on.
create or replace function @@.end_hold(t @@.target, _epoch bigint, _ended text) returns text[] language plpgsql as $$
declare
    woken text[];
begin
    update @@.target set kind = 0, ticket = null, session = null, expires = null, token_sum = null,
        ended = _ended, barred = null where name = t.name returning * into t;
    if t.queued then
        select s.wake into woken from @@.settle(t, _epoch) s;
    end if;
    return woken;
end $$;

create or replace function @@.open_session(_client integer, _id text, _ttl bigint) returns void language plpgsql as $$
begin
    perform @@.epoch(_client);
    insert into @@.session (id, ttl, expires)
        values (_id, _ttl, clock_timestamp() + _ttl * interval '1 millisecond')
        on conflict (id) do nothing;
end $$;

-- Renews a session. Null: it has ended. Otherwise every hold that was granted in this epoch has a larger fence.
create or replace function @@.renew_session(_client integer, _id text) returns bigint language plpgsql as $$
declare
    e bigint := @@.epoch(_client);
begin
    update @@.session set expires = clock_timestamp() + ttl * interval '1 millisecond'
        where id = _id and expires > clock_timestamp();
    return case when found then e << 36 end;
end $$;

-- Ends a session. Holds that are waited for are passed on; the others are found abandoned by the next caller.
create or replace function @@.close_session(_client integer, _id text) returns text[] language plpgsql as $$
declare
    e bigint := @@.epoch(_client);
    n text;
    t @@.target;
    woken text[];
begin
    for n in
        select distinct name collate "C" as name from @@.target join @@.ticket on target = target.id
        where target.session = _id and target.kind = 1 order by 1
    loop
        select * into t from @@.target where name = n for update;
        if t.session = _id and t.kind = 1 then
            woken := woken || @@.end_hold(t, e, t.ticket);
        end if;
    end loop;
    delete from @@.ticket where id in
        (select id from @@.ticket where session = _id order by id for update skip locked);
    delete from @@.session where id = _id;
    return woken;
end $$;

-- Takes the hold, joins the queue, or looks whether the turn has come. With an event: takes a lease from its holder.
create or replace function @@.take(
    _client integer, _name text, _ticket text, _session text, _kind smallint, _ttl bigint, _token_sum bytea,
    _holder text, _may_wait boolean, _channel text, _event text, _again boolean,
    out r_held boolean, out r_fence bigint, out r_recovered text, out r_holder text, out r_since bigint,
    out r_kind smallint, out r_left bigint, out r_wake text[]
) language plpgsql as $$
declare
    e bigint := @@.epoch(_client);
    t @@.target;
    q @@.ticket;
    s record;
begin
    if _again then -- From now on an earlier request with this ticket, which may still be on its way, is refused.
        insert into @@.receipt (id) values (_ticket) on conflict do nothing;
    end if;
    if _event is null then
        t := @@.grant_hold(true, _name, e, _ticket, _session, _kind, _ttl, _token_sum, _holder, null);
        if t.name is not null then
            r_held := true;
            r_fence := t.fence;
            return;
        end if;
    end if;
    -- A turn that has come is only read: nothing waits for the disk.
    select * into t from @@.target where name = _name;
    if t.ticket = _ticket and t.kind <> 0 and (_session = '' or not @@.ended(_session)) then
        r_held := true;
        r_fence := t.fence;
        r_recovered := t.recovered;
        return;
    end if;
    perform set_config('lock_timeout', '500ms', true);
    if _session <> '' and @@.ended(_session) then
        raise exception using errcode = 'TN002', message = 'the session has ended';
    end if;
    select * into t from @@.target where name = _name for update;
    if not found then
        t := @@.enter(_name);
    end if;
    if t.ended = _ticket or (not _again and t.ticket is distinct from _ticket
        and exists (select from @@.receipt where id = _ticket)
        and not exists (select from @@.ticket where id = _ticket))
    then -- This request comes late.
        raise exception using errcode = 'TN002', message = 'the ticket was given up';
    end if;
    r_held := t.ticket = _ticket and t.kind <> 0;
    if r_held is not true and (t.kind <> 0 or t.queued) then
        select * into s from @@.settle(t, e);
        t := s.t;
        r_wake := s.wake;
        r_held := t.ticket = _ticket and t.kind <> 0;
        if r_held is not true and s.held and (_event is null or t.kind = 1) then
            r_held := false;
            r_fence := t.fence;
            r_holder := t.holder;
            r_since := extract(epoch from t.since) * 1000000;
            r_kind := t.kind;
            if not _may_wait or _ticket = coalesce(
                (select id from @@.ticket where target = t.id order by seq limit 1), _ticket)
            then -- Only the first in the queue looks again when the hold expires.
                r_left := case when t.kind = 2 then extract(epoch from t.expires - clock_timestamp()) * 1000
                    else (select extract(epoch from expires - clock_timestamp()) * 1000
                        from @@.session where id = t.session) end;
            end if;
            if _may_wait and not exists (select from @@.ticket where id = _ticket) then
                insert into @@.ticket (target, seq, id, session, kind, ttl, token_sum, holder, channel)
                    select t.id, coalesce(max(seq), 0) + 1, _ticket, _session, _kind, _ttl, _token_sum, _holder,
                        _channel from @@.ticket where target = t.id;
                update @@.target set queued = true where name = _name and not queued;
            end if;
            return;
        end if;
    end if;
    if r_held is not true then
        if _event is not null then
            insert into @@.event (target, seq, event, former, former_fence, former_since)
                select t.id, coalesce(max(seq), 0) + 1, _event, case when t.kind = 2 then t.holder end, t.fence, t.since
                from @@.event where target = t.id;
            delete from @@.event where target = t.id
                and seq <= (select max(seq) - 1024 from @@.event where target = t.id);
            delete from @@.ticket where target = t.id and id = _ticket;
        end if;
        t := @@.grant_hold(false, _name, e, _ticket, _session, _kind, _ttl, _token_sum, _holder,
            case when t.kind = 1 then t.holder end);
    end if;
    r_held := true;
    r_fence := t.fence;
    r_recovered := t.recovered;
end $$;

-- Ends a lock, or a hold that was granted to a ticket that is given up (then `_fence` is null).
create or replace function @@.release(
    _client integer, _name text, _ticket text, _fence bigint, _again boolean, out r_done boolean, out r_wake text[]
) language plpgsql as $$
declare
    e bigint := @@.epoch(_client);
    t @@.target;
begin
    perform set_config('lock_timeout', '500ms', true);
    select * into t from @@.target where name = _name for update;
    if _fence is null then
        delete from @@.ticket where id = _ticket;
    end if;
    if t.ticket = _ticket and t.kind <> 0 and t.fence = coalesce(_fence, t.fence) then
        r_done := t.kind = 2 or not @@.ended(t.session);
        r_wake := @@.end_hold(t, e, _ticket);
    else
        -- An earlier attempt may have ended it, and others may have had it since.
        r_done := coalesce(_again and (t.ended = _ticket or t.fence > _fence), false);
        if _fence is null then
            update @@.target set ended = _ticket where name = _name; -- A late request to take it is refused.
        end if;
    end if;
end $$;

create or replace function @@.renew_lease(_client integer, _name text, _token_sum bytea, _ttl bigint)
returns boolean language plpgsql as $$
begin
    perform @@.epoch(_client);
    update @@.target set ttl = coalesce(_ttl, ttl),
        expires = clock_timestamp() + coalesce(_ttl, ttl) * interval '1 millisecond'
        where name = _name and kind = 2 and token_sum = _token_sum;
    return found;
end $$;

create or replace function @@.end_lease(
    _client integer, _name text, _token_sum bytea, _again boolean, out r_done boolean, out r_wake text[]
) language plpgsql as $$
declare
    e bigint := @@.epoch(_client);
    t @@.target;
begin
    perform set_config('lock_timeout', '500ms', true);
    select * into t from @@.target where name = _name for update;
    r_done := t.kind = 2 and t.token_sum = _token_sum;
    if r_done then
        r_wake := @@.end_hold(t, e, encode(_token_sum, 'hex'));
    else
        r_done := _again; -- An earlier attempt may have ended it, and others may have had it since.
    end if;
end $$;

-- Lets a caller through that waits for writes under a guard: for a moment no further proof is accepted.
create or replace function @@.bar(_name text) returns void language sql as $$
    update @@.target set barred = clock_timestamp() + interval '2 seconds' where name = _name
$$;

-- Notes what an operation did. Keeps at least the newest 4,096 of a target.
create or replace function @@.note_operation(t @@.target, _id text, _first bigint, _last bigint)
returns void language plpgsql as $$
begin
    insert into @@.operation (target, id, seq, first, last) values (t.id, _id, t.operations + 1, _first, _last)
        on conflict do nothing;
    update @@.target set operations = t.operations + 1 where name = t.name;
    if t.operations % 512 = 511 then
        delete from @@.operation where target = t.id and seq <= t.operations + 1 - 4096;
    end if;
end $$;

-- Appends lines to a journal that is free: the commonest change. It has few parameters and one answer, because the call is
-- parsed each time, and few statements, because a fresh connection plans each of them. Answers the last number, then
-- whom to wake. Null: something is not as usual, the epoch included. Nothing was done, and `commit` decides.
create or replace function @@.append(_client integer, _id text, _name text, _lines bytea[])
returns text[] language plpgsql as $$
declare
    lines integer := cardinality(_lines);
    journal_id bigint;
    last_line bigint;
begin
    update @@.target t set newest = greatest(t.newest, (m.base + m.timeline) << 36) + lines, journal = true,
        changes = greatest(t.changes, (m.base + m.timeline) << 36) + 1, changed = clock_timestamp()
        from @@.meta m
        where t.name = _name and t.kind = 0 and not t.queued
            -- What `epoch` finds out.
            and _client >= m.oldest_writer and m.started = pg_postmaster_start_time()
            and case when m.timeline = 0 then true else
                m.timeline = ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer end
            and current_setting('synchronous_commit') not in ('off', 'local')
        returning t.id, t.newest into journal_id, last_line;
    if not found then
        return null;
    end if;
    if lines = 1 then
        insert into @@.line (target, seq, bytes) values (journal_id, last_line, _lines[1]);
    else
        insert into @@.line (target, seq, bytes)
            select journal_id, last_line - lines + at, bytes from unnest(_lines) with ordinality as l (bytes, at);
    end if;
    -- A second request with this id fails here, and is repeated as a `commit`, which finds what the first one did.
    insert into @@.receipt (id, first, last) values (_id, last_line - lines + 1, last_line);
    return array[last_line::text] || array(
        select channel || ':' || name from @@.watcher where name = _name and until > clock_timestamp());
end $$;

-- Makes a change. `_names` are in order; `_modes`: 0: only looked at, 1: proven, 2: written, 3: removed.
create or replace function @@.commit(
    _client integer, _id text, _again boolean, _names text[], _modes smallint[], _free boolean[], _fences bigint[],
    _document text, _base bigint, _bytes bytea, _journal text, _lines bytea[], _remove text, _changes bigint,
    _operation text,
    out r_answer text, out r_version bigint, out r_first bigint, out r_last bigint, out r_name text,
    out r_expired boolean, out r_fence bigint, out r_holder text, out r_since bigint, out r_kind smallint,
    out r_wake text[]
) language plpgsql as $$
declare
    e bigint := @@.epoch(_client);
    t @@.target;
    d @@.target;
    j @@.target;
    gone @@.target;
    s record;
    p @@.receipt;
    o @@.operation;
    busy @@.target;
    valid boolean;
    over text[];
    lowest bigint := (e << 36) + 1;
begin
    for i in 1 .. cardinality(_names) loop
        if _modes[i] = 2 then
            select * into t from @@.target where name = _names[i] for no key update;
            if not found then
                t := @@.enter(_names[i]);
            elsif _free[i] and (t.kind <> 0 or t.queued) then
                select * into t from @@.target where name = _names[i] for update;
            end if;
        elsif _modes[i] = 1 then
            select * into t from @@.target where name = _names[i] for key share;
        elsif _modes[i] = 3 then
            select * into t from @@.target where name = _names[i] for update;
        else
            select * into t from @@.target where name = _names[i];
        end if;
        if _free[i] and (t.kind <> 0 or t.queued) then
            select * into s from @@.settle(t, e);
            t := s.t;
            r_wake := r_wake || s.wake;
            if s.held then
                if busy.name is null then
                    busy := t;
                end if;
            elsif t.kind = 2 then
                over := over || t.name;
                t.kind := 0;
            end if;
        end if;
        if _fences[i] is not null then
            valid := t.fence = _fences[i] and case t.kind
                when 1 then not @@.ended(t.session)
                when 2 then t.expires > clock_timestamp()
                else false end;
            if valid is not true and r_answer is null then
                r_answer := 'refused';
                r_name := _names[i];
                r_expired := coalesce(t.fence = _fences[i] and t.kind = 2, false);
                r_fence := coalesce(t.fence, 0);
                if t.fence <> _fences[i] and t.kind <> 0 then
                    r_holder := t.holder;
                    r_since := extract(epoch from t.since) * 1000000;
                    r_kind := t.kind;
                end if;
            elsif valid and t.barred > clock_timestamp() then
                r_answer := 'barred';
                return;
            end if;
        end if;
        if _names[i] = _document then
            d := t;
        end if;
        if _names[i] = _journal then
            j := t;
        end if;
        if _names[i] = _remove then
            gone := t;
        end if;
    end loop;
    if coalesce(_document, _journal, _remove) is null then
        r_answer := coalesce(r_answer, 'done'); -- Nothing but proofs.
        return;
    end if;
    -- The rows are locked: an earlier attempt that was on its way has ended by now.
    select * into p from @@.receipt where id = _id;
    if found then
        if p.void then -- A repeated request was answered that this is not done. It stays so.
            r_answer := 'busy';
            r_name := coalesce(_document, _journal, _remove);
            return;
        end if;
        r_answer := 'done';
        r_version := p.version;
        r_first := p.first;
        r_last := p.last;
        return;
    end if;
    if _again then -- An earlier request may still be on its way. If this one is not done, that one must not be, either.
        insert into @@.receipt (id, void) values (_id, true);
    end if;
    if r_answer is not null then
        return;
    end if;
    r_version := case when d.document is not null then d.version end;
    if _operation is not null then
        select * into o from @@.operation where target = coalesce(d.id, j.id) and id = _operation;
        if not found and d.id <> j.id then
            select * into o from @@.operation where target = j.id and id = _operation;
        end if;
        if found then
            r_answer := 'replayed';
            r_first := o.first;
            r_last := o.last;
            return;
        end if;
    end if;
    if busy.name is not null then
        r_answer := 'busy';
        r_name := busy.name;
        r_fence := busy.fence;
        r_holder := busy.holder;
        r_since := extract(epoch from busy.since) * 1000000;
        r_kind := busy.kind;
        return;
    end if;
    if (_document is not null and r_version is distinct from _base)
        or (_remove is not null and ((gone.document is not null or gone.journal) is not true
            or (_changes is not null and gone.changes <> _changes)))
    then
        r_answer := 'overtaken';
        return;
    end if;
    r_answer := 'done';
    if over is not null then -- An expired lease ends with a write that needs no proof of it.
        update @@.target set kind = 0, ticket = null, expires = null, token_sum = null, ended = ticket
            where name = any (over);
    end if;
    if _bytes is not null then
        update @@.target set document = _bytes, version = greatest(changes + 1, lowest),
            changes = greatest(changes + 1, lowest), changed = clock_timestamp()
            where name = _document returning version into r_version;
    end if;
    if _journal is not null then
        update @@.target set newest = greatest(newest, lowest - 1) + cardinality(_lines), journal = true,
            changes = greatest(changes + 1, lowest), changed = clock_timestamp()
            where name = _journal returning newest into r_last;
        r_first := r_last - cardinality(_lines) + 1;
        if cardinality(_lines) = 1 then
            insert into @@.line (target, seq, bytes) values (j.id, r_last, _lines[1]);
        else
            insert into @@.line (target, seq, bytes)
                select j.id, r_first + at - 1, bytes from unnest(_lines) with ordinality as l (bytes, at);
        end if;
    end if;
    if _remove is not null then
        delete from @@.line where target = gone.id;
        delete from @@.operation where target = gone.id;
        delete from @@.event where target = gone.id;
        if gone.kind = 0 and not gone.queued then
            update @@.floor set value = greatest(value, gone.fence, gone.changes, gone.newest);
            delete from @@.target where name = _remove;
        else
            update @@.target set document = null, journal = false, operations = 0,
                changes = greatest(changes + 1, lowest), changed = clock_timestamp() where name = _remove;
        end if;
    end if;
    if _operation is not null then
        if d.id is not null then
            perform @@.note_operation(d, _operation, r_first, r_last);
        end if;
        if j.id is not null and j.id is distinct from d.id then
            perform @@.note_operation(j, _operation, r_first, r_last);
        end if;
    end if;
    if _again then
        update @@.receipt set void = false, version = r_version, first = r_first, last = r_last where id = _id;
    else
        insert into @@.receipt (id, version, first, last) values (_id, r_version, r_first, r_last);
    end if;
    r_wake := r_wake || array(
        select channel || ':' || name from @@.watcher
        where name in (_document, _journal, _remove) and until > clock_timestamp());
end $$;

-- Notes that a process wants to hear of changes, and says what the newest one is.
create or replace function @@.watch(_client integer, _name text, _channel text) returns bigint language plpgsql as $$
begin
    perform @@.epoch(_client);
    insert into @@.watcher (name, channel, until) values (_name, _channel, clock_timestamp() + interval '1 minute')
        on conflict (name, channel) do update set until = excluded.until;
    return (select changes from @@.target where name = _name);
end $$;

-- Removes what is over, if that was not done for a minute: old receipts, sessions, tickets and watchers, and targets that
-- have no content and were not held for a day.
create or replace function @@.sweep(_client integer) returns void language plpgsql as $$
declare
    n text;
    t @@.target;
begin
    perform @@.epoch(_client);
    perform from @@.floor where swept < clock_timestamp() - interval '1 minute' for update skip locked;
    if not found then
        return;
    end if;
    update @@.floor set swept = clock_timestamp();
    delete from @@.receipt where at < clock_timestamp() - interval '10 minutes';
    delete from @@.watcher where (name, channel) in (select name, channel from @@.watcher
        where until < clock_timestamp() order by name, channel limit 1000 for update skip locked);
    delete from @@.session where id in (select id from @@.session
        where expires < clock_timestamp() - interval '1 minute' order by id limit 10000 for update skip locked);
    delete from @@.ticket where id in (select id from @@.ticket
        where not exists (select from @@.session where id = ticket.session) order by id limit 1000
        for update skip locked);
    if random() > 0.02 then
        return; -- All targets are looked at for the rest: once an hour is enough.
    end if;
    for n in
        select name from @@.target where document is null and not journal and not queued
            and coalesce(greatest(since, changed), '-infinity') < clock_timestamp() - interval '1 day' limit 1000
    loop
        select * into t from @@.target where name = n and document is null and not journal and not queued
            for update skip locked;
        if found and not (t.kind = 1 and not @@.ended(t.session)) and t.kind <> 2 then
            update @@.floor set value = greatest(value, t.fence, t.changes, t.newest);
            delete from @@.event where target = t.id;
            delete from @@.operation where target = t.id;
            delete from @@.target where name = n;
        end if;
    end loop;
end $$;

-- Gives a role what it needs to work with the store, without a right to create anything.
create or replace function @@.allow(_role name) returns void language plpgsql as $$
begin
    execute format('grant usage on schema @@ to %I', _role);
    execute format('grant select, insert, update, delete on all tables in schema @@ to %I', _role);
    execute format('grant execute on all functions in schema @@ to %I', _role);
end $$;
