"""PostgreSQL's regression statements, one after the other, on PostgreSQL and on another server: how many have one outcome.

    statements.py DIRECTORY POSTGRESQL_URL OTHER_URL [FILE…]

DIRECTORY is src/test/regress of PostgreSQL's sources. An outcome is an SQLSTATE, or rows (in any order without ORDER BY).
Each file finds the tables of test_setup.sql; what it makes is dropped again. PostgreSQL's error is an outcome too, but the
counts are of the statements that it executes.
"""

import collections
import os
import re
import sys
import time

import psycopg

# About files of the server, other databases, and what lasts beyond a file.
LEFT_OUT = {"tablespace", "largeobject", "psql", "psql_crosstab", "test_setup", "database", "copyselect", "publication",
            "subscription", "object_address", "misc_functions", "sysviews", "vacuum_parallel", "maintain_every"}
FILE_S_MAX = 40
TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$(\w*)\$.*?\$\1\$|;|\\[^\n]*|[^'\"$;\\/-]+|.", re.DOTALL)


def statements(text):
    """Statements with what COPY … FROM stdin reads; lines for psql are left out."""
    made, current, at, depth = [], "", 0, 0
    while match := TOKEN.match(text, at):
        token, at = match.group(), match.end()
        if token.startswith(("--", "/*")):
            continue
        if token.startswith("\\"):
            if token.startswith("\\set filename"):
                made.append(("\\", token.split("'")[-2] if "'" in token else ""))
            elif current.strip():
                made.append((current.strip(), None))
                current = ""
            continue
        depth += len(re.findall(r"\bBEGIN\s+ATOMIC\b|\bCASE\b", token, re.I)) - len(re.findall(r"\bEND\b", token, re.I))
        if token != ";" or re.search(r"BEGIN\s+ATOMIC", current, re.I) and depth > 0:
            current += token
            continue
        sql, current, depth = current.strip(), "", 0
        data = None
        if re.match(r"(?is)copy\b.*\bfrom\s+stdin", sql):
            rest = text[at:].lstrip(" ").removeprefix("\n")
            data, _, after = rest.partition("\n\\.\n")
            at = len(text) - len(after)
        if sql:
            made.append((sql, data))
    return made


class Server:
    def __init__(self, url, directory):
        self.url, self.directory, self.filename = url, directory, ""
        self.connect()

    def connect(self):
        self.db = psycopg.connect(self.url, autocommit=True).pgconn
        self.db.exec_(b"set statement_timeout = '5s'")

    def run(self, sql, data):
        if sql == "\\":
            self.filename = data
            return None
        if ":'filename'" in sql and os.path.exists(self.directory + self.filename):
            sql = sql.replace(":'filename'", "stdin")
            with open(self.directory + self.filename) as file:
                data = file.read()
        if self.db.status != psycopg.pq.ConnStatus.OK:
            self.connect()
        result = self.db.exec_(sql.encode())
        if result.status == psycopg.pq.ExecStatus.COPY_IN:
            self.db.put_copy_data((data or "").encode() + b"\n") if data else None
            self.db.put_copy_end()
            result = self.db.get_result()
        while result is not None and result.status in (psycopg.pq.ExecStatus.COPY_OUT, psycopg.pq.ExecStatus.COPY_IN):
            self.connect()
            return ("rows", [])
        if result is None or result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            state = result and result.error_field(psycopg.pq.DiagnosticField.SQLSTATE)
            message = result and result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY)
            return ("error", (state or b"?????").decode(), (message or b"").decode("utf8", "replace"))
        rows = [tuple(result.get_value(n, c) for c in range(result.nfields)) for n in range(result.ntuples)]
        return ("rows", rows if "order by" in sql.lower() else sorted(rows, key=repr))

    def fresh(self):
        self.db.finish()
        self.connect()
        for sql in ["drop schema if exists public cascade", "create schema public", "set search_path to public"]:
            self.db.exec_(sql.encode())


def cause(got):
    """Few words for an outcome that is not PostgreSQL's."""
    return f"{got[1]} " + re.sub('[0-9]+|"[^"]*"', "x", got[2])[:90] if got[0] == "error" else "other rows"


def main():
    directory, urls = sys.argv[1], sys.argv[2:4]
    names = sys.argv[4:] or sorted(n[:-4] for n in os.listdir(f"{directory}/sql") if n[:-4] not in LEFT_OUT)
    read = lambda name: statements(open(f"{directory}/sql/{name}.sql", encoding="utf8", errors="replace").read())
    setup = read("test_setup")
    servers = [Server(url, directory) for url in urls]
    total, causes = [0, 0], collections.Counter()
    for name in names:
        outcomes, ended = [], []
        for server in servers:
            server.fresh()
            for sql, data in setup:
                server.run(sql, data)
            since, made = time.monotonic(), []
            for sql, data in read(name):
                if time.monotonic() - since > FILE_S_MAX:
                    break
                try:
                    made.append((sql, server.run(sql, data)))
                except psycopg.Error as error:
                    made.append((sql, ("error", "lost", str(error))))
            outcomes.append(made)
        same = known = 0
        for (sql, wanted), (_, got) in zip(*outcomes):
            if wanted is None or wanted[0] == "error":
                continue
            known += 1
            if wanted == got:
                same += 1
            else:
                causes[cause(got)] += 1
        total[0] += same
        total[1] += known
        print(f"{name:24} {same:5} of {known:5}", flush=True)
    print(f"{'all':24} {total[0]:5} of {total[1]:5}  {100 * total[0] / max(1, total[1]):.1f} %")
    for told, count in causes.most_common(25):
        print(f"{count:6} {told}")


main()
