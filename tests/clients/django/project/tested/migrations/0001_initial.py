"""What `makemigrations` writes for the models."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.CreateModel(
            name="Book",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("title", models.CharField(max_length=80, unique=True)),
                ("pages", models.PositiveIntegerField()),
                ("readers", models.ManyToManyField(related_name="books", to=settings.AUTH_USER_MODEL)),
            ],
        ),
    ]
