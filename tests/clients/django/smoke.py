"""Django: its own migrations, an app's, the ORM, inspectdb, and the test runner with a database of its own."""

import io
import os
import subprocess
import sys
import types

import django
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": "127.0.0.1",
            "PORT": os.environ["MERIDIAN_PORT"],
            "USER": "root",
            "NAME": "meridian",
        }
    },
    INSTALLED_APPS=["django.contrib.contenttypes", "notes"],
    MIGRATION_MODULES={"contenttypes": None, "notes": None},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
)
notes = types.ModuleType("notes")
notes.__path__ = [os.path.dirname(__file__)]
sys.modules["notes"] = notes
django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402
from django.db.models import Count, F  # noqa: E402


class Note(models.Model):
    title = models.CharField(max_length=40, unique=True)
    body = models.TextField(default="", db_comment="what it says")
    stars = models.IntegerField(null=True)
    price = models.DecimalField(max_digits=8, decimal_places=2, null=True)
    made = models.DateTimeField(auto_now_add=True)
    done = models.BooleanField(default=False)

    class Meta:
        app_label = "notes"
        indexes = [models.Index(fields=["stars"], name="note_stars")]


with connection.cursor() as cursor:
    cursor.execute("DROP TABLE IF EXISTS notes_note, django_content_type, django_migrations")
with connection.schema_editor() as editor:
    editor.create_model(Note)

Note.objects.bulk_create([Note(title=f"n{n}", stars=n % 3) for n in range(9)])
assert Note.objects.filter(stars__gte=1).count() == 6
assert Note.objects.filter(title__icontains="N8").get().stars == 2
Note.objects.filter(stars=0).update(stars=F("stars") + 5)
counted = Note.objects.values("stars").annotate(n=Count("id")).order_by("stars")
assert list(counted) == [{"stars": 1, "n": 3}, {"stars": 2, "n": 3}, {"stars": 5, "n": 3}], list(counted)
note, is_new = Note.objects.get_or_create(title="n1")
assert not is_new
try:
    with transaction.atomic():
        Note.objects.create(title="n1")
    raise AssertionError("twice")
except IntegrityError:
    pass
with transaction.atomic():
    locked = Note.objects.select_for_update().get(title="n2")
    locked.done = True
    locked.save()
assert Note.objects.filter(done=True).count() == 1
with connection.schema_editor() as editor:
    field = models.IntegerField(null=True)
    field.set_attributes_from_name("more")
    editor.add_field(Note, field)

with connection.cursor() as cursor:
    tables = [table.name for table in connection.introspection.get_table_list(cursor)]
    assert "notes_note" in tables
    columns = [column.name for column in connection.introspection.get_table_description(cursor, "notes_note")]
    assert columns == ["id", "title", "body", "stars", "price", "made", "done", "more"], columns
    constraints = connection.introspection.get_constraints(cursor, "notes_note")
    assert any(c["primary_key"] and c["columns"] == ["id"] for c in constraints.values())
text = io.StringIO()
call_command("inspectdb", "notes_note", stdout=text)
assert "title = models.CharField(unique=True, max_length=40)" in text.getvalue(), text.getvalue()

# `manage.py test` makes the database test_meridian, migrates it, runs the project's tests there and drops it.
project = os.path.join(os.path.dirname(os.path.abspath(__file__)), "project")
command = [sys.executable, "manage.py", "test", "--noinput"]
subprocess.run(command, cwd=project, check=True, stdout=subprocess.DEVNULL)
with connection.cursor() as cursor:
    cursor.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'test_%'")
    assert cursor.fetchone() == (0,)
