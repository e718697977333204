"""SQLAlchemy and Alembic: the ORM, reflection, a migration forwards and one that is generated."""

import datetime as dt
import decimal
import os
from typing import Optional

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

engine = sa.create_engine(f"postgresql+psycopg://root@127.0.0.1:{os.environ['MERIDIAN_PORT']}/meridian")


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "sa_author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(40), unique=True, comment="as printed")
    born: Mapped[Optional[dt.date]]
    fee: Mapped[Optional[decimal.Decimal]] = mapped_column(sa.Numeric(10, 2))
    __table_args__ = (sa.Index("sa_author_born", "born"), {"comment": "who writes"})


with engine.begin() as db:
    db.execute(sa.text("DROP VIEW IF EXISTS sa_cheap"))
    db.execute(sa.text("DROP TABLE IF EXISTS sa_note"))
Base.metadata.drop_all(engine)
Base.metadata.create_all(engine)
assert compare_metadata(MigrationContext.configure(engine.connect()), sa.MetaData()) is not None

with Session(engine) as session:
    session.add_all([Author(name=f"a{n}", born=dt.date(1950 + n, 1, 1), fee=decimal.Decimal(n)) for n in range(5)])
    session.commit()
    assert session.scalar(sa.select(sa.func.count()).select_from(Author)) == 5
    first = session.scalars(sa.select(Author).order_by(Author.born).limit(1)).one()
    first.name = "changed"
    session.commit()
    assert session.get(Author, first.id).name == "changed"
    session.add(Author(name="changed"))
    try:
        session.commit()
        raise AssertionError("twice")
    except sa.exc.IntegrityError:
        session.rollback()
    with session.begin_nested():
        session.delete(first)
    session.rollback()
    assert session.scalar(sa.select(sa.func.count()).select_from(Author)) == 5

with engine.begin() as db:
    db.execute(sa.text("CREATE VIEW sa_cheap AS SELECT id, name FROM sa_author WHERE fee < 3"))
inspector = sa.inspect(engine)
assert "sa_cheap" in inspector.get_view_names()
assert "sa_author" in inspector.get_view_definition("sa_cheap")
columns = {column["name"]: column for column in inspector.get_columns("sa_author")}
assert columns["name"]["comment"] == "as printed" and not columns["name"]["nullable"]
assert inspector.get_table_comment("sa_author") == {"text": "who writes"}
assert inspector.get_pk_constraint("sa_author")["constrained_columns"] == ["id"]
assert [index["name"] for index in inspector.get_indexes("sa_author") if not index["unique"]] == ["sa_author_born"]
assert inspector.get_unique_constraints("sa_author")[0]["column_names"] == ["name"]

# The tables are as the models say; a migration is generated from what they are not.
with engine.begin() as db:
    ours = {"include_name": lambda name, kind, _: kind != "table" or name.startswith("sa_")}
    context = MigrationContext.configure(db, opts={"compare_type": True, **ours})
    changes = compare_metadata(context, Base.metadata)
    assert changes == [], changes
    operations = Operations(context)
    operations.create_table("sa_note", sa.Column("id", sa.Integer, primary_key=True), sa.Column("text", sa.Text))
    operations.add_column("sa_note", sa.Column("at", sa.DateTime))
    operations.create_index("sa_note_at", "sa_note", ["at"])
    changes = compare_metadata(context, Base.metadata)
    assert [change[0] for change in changes] == ["remove_index", "remove_table"], changes
