"""A small project with two apps of Django's and one of its own."""

import os

SECRET_KEY = "not one"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": "127.0.0.1",
        "PORT": os.environ["MERIDIAN_PORT"],
        "USER": "root",
        "NAME": "meridian",
    }
}
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "tested"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
