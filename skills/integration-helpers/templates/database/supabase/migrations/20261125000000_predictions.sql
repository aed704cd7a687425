-- Runs, releases, predictions and feedback, with row-level security. For Supabase; the same on plain PostgreSQL 15 or newer
-- after plain_postgres.sql, which makes the roles that Supabase has.
--
-- Who may do what:
--   anon           nothing
--   authenticated  reads runs and releases; adds and reads their own predictions and feedback; changes their own feedback
--   service_role   everything: the key of a server, never of a browser

create table public.runs (
  id text primary key check (length(id) between 1 and 200),
  project text not null,
  kind text not null,
  metrics jsonb not null default '{}' check (jsonb_typeof(metrics) = 'object'),
  ended_at timestamptz
);

create table public.releases (
  id bigint generated always as identity primary key,
  project text not null,
  -- Null where the release was recorded from a copy of final_model/, which does not say its number.
  number integer check (number > 0),
  run_id text not null references public.runs (id),
  program_sha256 text not null check (program_sha256 ~ '^[0-9a-f]{64}$'),
  classes text[] not null default '{}',
  sealed_at timestamptz,
  constraint releases_number_is_one_program unique (project, number)
);
create unique index releases_without_number on public.releases (project, program_sha256) where number is null;
create index releases_run_id on public.releases (run_id);

create table public.predictions (
  id bigint generated always as identity primary key,
  release_id bigint not null references public.releases (id),
  user_id uuid not null default auth.uid() references auth.users (id) on delete cascade,
  label text,
  value double precision,
  probability double precision check (probability between 0 and 1),
  -- An answer that is neither a class nor one number: several numbers, a text.
  output jsonb,
  -- What was predicted from. Leave it null where rows are personal data that nobody needs again.
  input jsonb,
  created_at timestamptz not null default now(),
  check (num_nonnulls(label, value, output) = 1)
);
create index predictions_release_id on public.predictions (release_id);
create index predictions_user_id_created_at on public.predictions (user_id, created_at desc);

create table public.feedback (
  prediction_id bigint primary key references public.predictions (id) on delete cascade,
  user_id uuid not null default auth.uid() references auth.users (id) on delete cascade,
  is_right boolean not null,
  correction text check (length(correction) <= 2000),
  created_at timestamptz not null default now()
);
create index feedback_user_id on public.feedback (user_id);

alter table public.runs enable row level security;
alter table public.releases enable row level security;
alter table public.predictions enable row level security;
alter table public.feedback enable row level security;

-- Rights of the tables: a policy can only narrow them. Supabase grants all of them to everyone by default.
revoke all on public.runs, public.releases, public.predictions, public.feedback from anon, authenticated;
grant select on public.runs, public.releases to authenticated;
grant select on public.predictions, public.feedback to authenticated;
-- By column: nobody but the server says when a row was made.
grant insert (release_id, user_id, label, value, probability, output, input) on public.predictions to authenticated;
grant insert (prediction_id, user_id, is_right, correction) on public.feedback to authenticated;
grant update (is_right, correction) on public.feedback to authenticated;
grant all on public.runs, public.releases, public.predictions, public.feedback to service_role;

-- `(select auth.uid())` is evaluated once a statement rather than once a row.
create policy "users read runs" on public.runs for select to authenticated using (true);

create policy "users read releases" on public.releases for select to authenticated using (true);

create policy "users read their predictions" on public.predictions for select to authenticated
  using (user_id = (select auth.uid()));

create policy "users add their predictions" on public.predictions for insert to authenticated
  with check (user_id = (select auth.uid()));

create policy "users read their feedback" on public.feedback for select to authenticated
  using (user_id = (select auth.uid()));

create policy "users add feedback on their predictions" on public.feedback for insert to authenticated
  with check (
    user_id = (select auth.uid())
    and exists (
      select from public.predictions where predictions.id = prediction_id and predictions.user_id = (select auth.uid())
    )
  );

create policy "users change their feedback" on public.feedback for update to authenticated
  using (user_id = (select auth.uid()))
  with check (user_id = (select auth.uid()));
