-- Who may do what, by pgTAP: `supabase test db`, or psql after plain_postgres.sql and the migration. Leaves nothing behind.
-- Each policy has a test that fails without it or when it allows more.
begin;
create extension if not exists pgtap with schema public;
select plan(32);

insert into auth.users (id) values ('00000000-0000-4000-8000-00000000000a'), ('00000000-0000-4000-8000-00000000000b');
insert into public.runs (id, project, kind) values ('test-run', 'test-project', 'final');
insert into public.releases (project, number, run_id, program_sha256, classes)
values ('test-project', 1, 'test-run', repeat('0', 64), '{yes,no}');

create function pg_temp.release() returns bigint language sql security definer as $$
  select id from public.releases where project = 'test-project'
$$;
create function pg_temp.become(who text) returns void language sql as $$
  select set_config('request.jwt.claims', json_build_object('sub', '00000000-0000-4000-8000-00000000000' || who)::text, true)
$$;

select is(
  (select count(*)::int from pg_class where oid in ('public.runs'::regclass, 'public.releases'::regclass,
    'public.predictions'::regclass, 'public.feedback'::regclass) and relrowsecurity),
  4, 'row-level security is on for every table');
select policies_are('public', 'runs', array['users read runs']);
select policies_are('public', 'releases', array['users read releases']);
select policies_are('public', 'predictions', array['users read their predictions', 'users add their predictions']);
select policies_are('public', 'feedback', array['users read their feedback', 'users add feedback on their predictions',
  'users change their feedback']);

-- A user, A
set local role authenticated;
select pg_temp.become('a');
select isnt_empty('select 1 from public.runs where id = ''test-run''', 'A reads runs');
select isnt_empty('select 1 from public.releases where project = ''test-project''', 'A reads releases');
select throws_ok('insert into public.runs (id, project, kind) values (''x'', ''x'', ''x'')', '42501', null, 'A adds no run');
select throws_ok('update public.releases set number = 2', '42501', null, 'A changes no release');
select lives_ok(
  'insert into public.predictions (release_id, label, probability) values (pg_temp.release(), ''yes'', 0.9)',
  'A adds a prediction, which is A''s by default');
select is((select count(*)::int from public.predictions), 1, 'A reads it');
select throws_ok(
  'insert into public.predictions (release_id, user_id, label) values (pg_temp.release(), '
  '''00000000-0000-4000-8000-00000000000b'', ''no'')', '42501', null, 'A adds no prediction of B');
select throws_ok(
  'insert into public.predictions (release_id, label, created_at) values (pg_temp.release(), ''yes'', ''2020-01-01'')',
  '42501', null, 'A says not when a prediction was made');
select throws_ok('insert into public.predictions (release_id, label, output) values (pg_temp.release(), ''yes'', ''[1, 2]'')',
  '23514', null, 'a prediction is one answer');
select throws_ok('update public.predictions set label = ''no''', '42501', null, 'A changes no prediction');
select throws_ok('delete from public.predictions', '42501', null, 'A deletes no prediction');
select throws_ok(
  'insert into public.feedback (prediction_id, user_id, is_right) select id, '
  '''00000000-0000-4000-8000-00000000000b'', true from public.predictions', '42501', null, 'A adds no feedback in B''s name');
select throws_ok('insert into public.feedback (prediction_id, is_right, created_at) select id, true, ''2020-01-01'' '
  'from public.predictions', '42501', null, 'A says not when feedback was given');
select lives_ok('insert into public.feedback (prediction_id, is_right) select id, true from public.predictions',
  'A says whether it was right');
select is((select count(*)::int from public.feedback), 1, 'A reads it');
select lives_ok('update public.feedback set is_right = false, correction = ''no''', 'A changes it');
select is((select correction from public.feedback), 'no', 'and it is changed');
select throws_ok('update public.feedback set user_id = ''00000000-0000-4000-8000-00000000000b''', '42501', null,
  'A makes it nobody else''s');

-- Another, B
select pg_temp.become('b');
select is_empty('select 1 from public.predictions', 'B reads no prediction of A');
select is_empty('select 1 from public.feedback', 'B reads no feedback of A');
select lives_ok('update public.feedback set is_right = true', 'B may change what is B''s');
reset role;
select is((select is_right from public.feedback), false, 'and changes no feedback of A');
create temporary table of_a as select id from public.predictions where user_id = '00000000-0000-4000-8000-00000000000a';
delete from public.feedback;
grant select on of_a to authenticated;
set local role authenticated;
select throws_ok('insert into public.feedback (prediction_id, is_right) select id, true from of_a', '42501', null,
  'B adds no feedback on a prediction of A');

-- Nobody in particular, and the server
reset role;
set local role anon;
select set_config('request.jwt.claims', '', true);
select throws_ok('select 1 from public.releases', '42501', null, 'anon reads nothing');
select throws_ok('insert into public.predictions (release_id, label) values (1, ''yes'')', '42501', null, 'anon adds nothing');
reset role;
set local role service_role;
select is((select count(*)::int from public.predictions where release_id = pg_temp.release()), 1, 'the server reads all');
select lives_ok('update public.runs set metrics = ''{"accuracy": 1}'' where id = ''test-run''', 'the server changes all');
reset role;

select * from finish();
rollback;
