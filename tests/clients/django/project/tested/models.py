"""Books and who reads them."""

from django.contrib.auth.models import User
from django.db import models


class Book(models.Model):
    title = models.CharField(max_length=80, unique=True)
    pages = models.PositiveIntegerField()
    readers = models.ManyToManyField(User, related_name="books")
