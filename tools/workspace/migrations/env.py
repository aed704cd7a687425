"""Alembic's entry: runs the migrations on the database that schema_version.py names."""

from alembic import context
from sqlalchemy import create_engine

engine = create_engine(context.config.attributes["url"])
with engine.connect() as connection:
    context.configure(connection=connection, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
