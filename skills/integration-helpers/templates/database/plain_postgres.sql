-- What Supabase has and plain PostgreSQL lacks: roles, the users' table, and who is asking. For tests and for PostgreSQL
-- without Supabase, where whoever opens a connection sets `request.jwt.claims`; never run it on Supabase.
create role anon nologin;
create role authenticated nologin;
create role service_role nologin bypassrls;
create schema auth;
create table auth.users (id uuid primary key);
create function auth.uid() returns uuid language sql stable as $$
  select nullif(current_setting('request.jwt.claims', true)::jsonb ->> 'sub', '')::uuid
$$;
grant usage on schema public, auth to anon, authenticated, service_role;
grant execute on function auth.uid() to anon, authenticated, service_role;
