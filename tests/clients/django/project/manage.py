"""The project's commands; `manage.py test` makes a database of its own, migrates it, and drops it."""

import os

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
execute_from_command_line()
