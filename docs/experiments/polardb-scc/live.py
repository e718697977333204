#!/usr/bin/env python3
"""Strong and stale reads at replicas, live: Meridian with replicas in processes of their own beside PostgreSQL with standbys.

    docs/experiments/polardb-scc/live.py --meridian target/release/meridian --replicas 1,2,4 --out live.json

pgbench reads one row by its key at each replica, while others write one row each at the node (the primary); a probe beside
them writes a row, waits for the answer, reads it at a replica, and counts what is older. Strong is policy `scc` for
Meridian and `synchronous_commit = remote_apply` with all standbys for PostgreSQL; stale is `stale`, and `local`. All
processes run on this machine, with their data in a directory that is removed: figures say something only if nothing else runs.
PostgreSQL does not run as root: started as root, the script runs its programs as --pg-user.

Needs pgbench and psql in PATH and PostgreSQL's server programs in --pg-bin; nothing else.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request

ROWS = 20_000
READ = f"\\set id random(1, {ROWS})\nSELECT v FROM scc WHERE id = :id;\n"
WRITE = f"\\set id random(1, {ROWS})\nUPDATE scc SET v = v + 1 WHERE id = :id;\n"


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


class Psql:
    """A session; each statement gives the lines of its answer."""

    def __init__(self, port, user, database, options=""):
        command = ["psql", "-X", "-q", "-A", "-t", "-h", "127.0.0.1", "-p", str(port), "-U", user, database]
        environment = {**os.environ, "PGOPTIONS": options}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)

    def run(self, sql):
        self.process.stdin.write(f"{sql};\n\\echo .end\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline()) != ".end\n":
            if not line:
                raise RuntimeError(f"psql ended at: {sql}")
            lines.append(line.rstrip("\n"))
        return lines

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Meridian:
    name, user, database = "meridian", "root", "meridian"
    # Policy, and the options of a reader's session.
    policies = [("scc", "-c meridian.read_policy=scc"), ("stale", "-c meridian.read_policy=stale")]

    def __init__(self, arguments, directory, replicas):
        self.command, self.directory, self.processes = arguments.meridian, directory / "meridian", []
        init = ["cluster", "init", str(self.directory), "--nodes", "us", "--survive", "0"]
        self.do(*init, "--port", "0", "--node-port", "0", "--http-port", "0")
        self.port = self.start("us")
        for n in range(replicas):
            self.do("replica", "add", f"r{n}", "--config", str(self.directory / "us.toml"))
        self.ports = [self.start(f"r{n}") for n in range(replicas)]

    def do(self, *arguments):
        subprocess.run([self.command, *arguments], check=True, stdout=subprocess.DEVNULL)

    def start(self, name):
        config = self.directory / f"{name}.toml"
        given = dict(line.split(" = ", 1) for line in config.read_text().splitlines() if " = " in line)
        command = [self.command, "start", "--config", str(config)]
        self.processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        address = given["http"].strip('"')
        wait_for(lambda: urllib.request.urlopen(f"http://{address}/readyz", timeout=2), name)
        return int(given["port"])

    def choose(self, policy):
        pass

    def fetches(self):
        session = Psql(self.port, self.user, self.database)
        fetches = int(session.run("SELECT coalesce(sum(fetches), 0)::bigint FROM meridian.replicas")[0])
        session.close()
        return fetches

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


class Postgres:
    name, user, database = "postgresql", "postgres", "postgres"
    policies = [("remote_apply", ""), ("asynchronous", "")]

    def __init__(self, arguments, directory, replicas):
        self.bin, self.as_user = pathlib.Path(arguments.pg_bin), arguments.pg_user if os.geteuid() == 0 else None
        self.directory, self.running = directory / "postgresql", []
        self.directory.mkdir(mode=0o755)
        if self.as_user:
            shutil.chown(self.directory, self.as_user)
        primary = self.directory / "primary"
        self.do("initdb", "-D", str(primary), "-U", self.user, "-A", "trust", "--no-sync")
        self.port = self.start(primary)
        self.ports, self.replicas = [], replicas
        for n in range(replicas):
            data = self.directory / f"r{n}"
            way = f"host=127.0.0.1 port={self.port} user={self.user} application_name=r{n}"
            self.do("pg_basebackup", "-D", str(data), "-d", way, "-R", "--checkpoint=fast")
            self.ports.append(self.start(data))

    def do(self, program, *arguments):
        command = [str(self.bin / program), *arguments]
        if self.as_user:
            command = ["setpriv", "--reuid", self.as_user, "--regid", str(os.stat(self.directory).st_gid),
                       "--clear-groups", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.directory)

    def start(self, data):
        port = free_port()
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.directory} -c max_connections=300"
        self.do("pg_ctl", "start", "-w", "-D", str(data), "-l", str(data) + ".log", "-o", options)
        self.running.append(data)
        return port

    def choose(self, policy):
        names = ",".join(f"r{n}" for n in range(self.replicas))
        is_strong = policy == "remote_apply"
        session = Psql(self.port, self.user, self.database)
        session.run(f"ALTER SYSTEM SET synchronous_standby_names = '{self.replicas} ({names})'")
        session.run(f"ALTER SYSTEM SET synchronous_commit = '{'remote_apply' if is_strong else 'local'}'")
        session.run("SELECT pg_reload_conf()")
        session.close()
        time.sleep(1)

    def fetches(self):
        return 0

    def stop(self):
        for data in reversed(self.running):
            self.do("pg_ctl", "stop", "-m", "immediate", "-D", str(data))


def wait_for(look, what, seconds=120):
    begin = time.monotonic()
    while True:
        try:
            return look()
        except OSError as error:
            if time.monotonic() - begin > seconds:
                raise RuntimeError(f"{what}: {error}") from error
            time.sleep(0.1)


def fill(system):
    session = Psql(system.port, system.user, system.database)
    session.run("CREATE TABLE scc (id int PRIMARY KEY, v bigint NOT NULL)")
    session.run(f"INSERT INTO scc SELECT n, 0 FROM generate_series(1, {ROWS}) AS g(n)")
    # The probe's own, which nobody else writes.
    session.run("CREATE TABLE probe (id int PRIMARY KEY, v bigint NOT NULL)")
    session.run("INSERT INTO probe VALUES (1, 0)")
    session.close()
    for port in system.ports:
        def look(port=port):
            session = Psql(port, system.user, system.database)
            try:
                if session.run("SELECT count(*) FROM probe") != ["1"]:
                    raise OSError("it lacks rows")
            finally:
                session.close()
        wait_for(look, f"the replica at port {port}")


def begin_pgbench(system, port, script, clients, seconds, options, log):
    command = ["pgbench", "-n", "-M", "prepared", "-h", "127.0.0.1", "-p", str(port), "-U", system.user]
    command += ["-c", str(clients), "-T", str(seconds), "-f", str(script), "-l", "--log-prefix", str(log), system.database]
    environment = {**os.environ, "PGOPTIONS": options}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def measure(system, policy, options, arguments, scratch):
    system.choose(policy)
    logs = scratch / f"{system.name}-{policy}-{len(system.ports)}"
    logs.mkdir()
    read, write = scratch / "read.sql", scratch / "write.sql"
    read.write_text(READ)
    write.write_text(WRITE)
    before, begin = system.fetches(), time.monotonic()
    writers = begin_pgbench(system, system.port, write, arguments.writers, arguments.seconds, "", logs / "write")
    readers = [
        begin_pgbench(system, port, read, arguments.readers, arguments.seconds, options, logs / f"read{n}")
        for n, port in enumerate(system.ports)
    ]
    # One write and one read after another, at each replica in turn.
    at_node = Psql(system.port, system.user, system.database)
    at_replicas = [Psql(port, system.user, system.database, options) for port in system.ports]
    value, stale, probes = int(at_node.run("SELECT v FROM probe WHERE id = 1")[0]), 0, 0
    while time.monotonic() - begin < arguments.seconds:
        value, probes = value + 1, probes + 1
        at_node.run(f"UPDATE probe SET v = {value} WHERE id = 1")
        seen = int(at_replicas[probes % len(at_replicas)].run("SELECT v FROM probe WHERE id = 1")[0])
        stale += seen < value
    for session in [at_node, *at_replicas]:
        session.close()
    for process in [writers, *readers]:
        _, told = process.communicate()
        if process.returncode:
            raise RuntimeError(f"pgbench: {told}")
    took = time.monotonic() - begin
    latencies = lambda prefix: sorted(
        int(line.split()[2]) / 1000 for path in logs.glob(prefix + "*") for line in path.read_text().splitlines()
    )
    reads, writes = latencies("read"), latencies("write")
    at = lambda share: round(reads[min(int(len(reads) * share), len(reads) - 1)], 3)
    return {
        "system": system.name,
        "policy": policy,
        "replicas": len(system.ports),
        "workload": f"{arguments.readers} readers at each replica, {arguments.writers} writers, {ROWS} rows",
        "throughput": round(len(reads) / arguments.seconds, 1),
        "latency_ms": {"mean": round(sum(reads) / len(reads), 3), "p50": at(0.5), "p99": at(0.99)},
        "writes_per_s": round(len(writes) / arguments.seconds, 1),
        "stale_reads": stale,
        "probes": probes,
        "fetches_per_s": round((system.fetches() - before) / took, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--meridian", default="meridian", help="the program, of a release build")
    parser.add_argument("--pg-bin", default="/usr/lib/postgresql/15/bin", help="PostgreSQL's server programs")
    parser.add_argument("--pg-user", default="nobody", help="who runs them, if this is root")
    parser.add_argument("--systems", default="meridian,postgresql")
    parser.add_argument("--replicas", default="1,2,4")
    parser.add_argument("--readers", type=int, default=16, help="clients at each replica")
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--out", help="a file for the rows, as JSON")
    arguments = parser.parse_args()
    rows = []
    for system_class in [s for s in (Meridian, Postgres) if s.name in arguments.systems.split(",")]:
        for replicas in map(int, arguments.replicas.split(",")):
            scratch = pathlib.Path(tempfile.mkdtemp(prefix="scc-live-"))
            scratch.chmod(0o755)
            system = system_class(arguments, scratch, replicas)
            try:
                fill(system)
                for policy, options in system.policies:
                    rows.append(measure(system, policy, options, arguments, scratch))
                    print(json.dumps(rows[-1]), flush=True)
            finally:
                system.stop()
                shutil.rmtree(scratch, ignore_errors=True)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
