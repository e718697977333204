"""Tests that run in a database of their own."""

from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import TestCase, TransactionTestCase

from tested.models import Book


class Books(TestCase):
    @classmethod
    def setUpTestData(cls):
        cls.ann = User.objects.create_user("ann", password="pencil")
        cls.book = Book.objects.create(title="Order", pages=300)

    def test_it_is_a_database_of_its_own(self):
        self.assertEqual(connection.settings_dict["NAME"], "test_meridian")
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_database()")
            self.assertEqual(cursor.fetchone(), ("test_meridian",))

    def test_readers(self):
        self.book.readers.add(self.ann)
        self.assertEqual([book.title for book in self.ann.books.all()], ["Order"])

    def test_nobody_reads_what_another_test_wrote(self):
        self.assertEqual(self.book.readers.count(), 0)
        with self.assertRaises(IntegrityError), transaction.atomic():
            Book.objects.create(title="Order", pages=1)


class Commits(TransactionTestCase):
    def test_tables_are_emptied_between_tests(self):
        self.assertEqual(Book.objects.count(), 0)
        Book.objects.create(title="Order", pages=1)

    def test_and_again(self):
        self.assertEqual(Book.objects.count(), 0)
        Book.objects.create(title="Order", pages=2)
