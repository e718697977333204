#!/usr/bin/env python3
"""Writes in every region, live: Meridian's engine geogauss, MariaDB Galera, PostgreSQL with synchronous standbys.

    multi_master.py --hosts hosts.json --meridian target/release/meridian --seconds 30 --clients 8 --out live.json

Each system runs as one process in each region, with its data on disk and its default promise of durability; the clients of
a region run there, too, and send TPC-C's Payment and NewOrder in turns, as single statements of a transaction, through the
system's own protocol. Each region has warehouses of its own; one line in a hundred and 15 % of the payments draw
theirs from those of all regions. A transaction that is aborted is sent again and counted. With PostgreSQL all clients write to the first region.

`hosts.json` says where regions are. `run` is what puts a program there, and is empty if one address is as good as another:

    [{"name": "us", "address": "10.77.0.11", "run": ["ip", "netns", "exec", "us"]}, …]

Needs psycopg and PyMySQL; MariaDB with Galera and PostgreSQL's server programs for their parts (`--systems` leaves some out).
"""

import argparse
import json
import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

DISTRICTS, CUSTOMERS, ITEMS = 10, 100, 1000
GALERA = "/usr/lib/galera/libgalera_smm.so"

TABLES = [
    "CREATE TABLE warehouse (w_id int PRIMARY KEY, w_ytd decimal(12,2))",
    "CREATE TABLE district (d_w_id int, d_id int, d_ytd decimal(12,2), d_next_o_id int, PRIMARY KEY (d_w_id, d_id))",
    "CREATE TABLE customer (c_w_id int, c_d_id int, c_id int, c_balance decimal(12,2), c_data varchar(200), "
    "PRIMARY KEY (c_w_id, c_d_id, c_id))",
    "CREATE TABLE history (h_id varchar(40) PRIMARY KEY, h_w_id int, h_amount decimal(6,2))",
    "CREATE TABLE orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_lines int, PRIMARY KEY (o_w_id, o_d_id, o_id))",
    "CREATE TABLE order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_quantity int, "
    "ol_amount decimal(8,2), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
    "CREATE TABLE item (i_id int PRIMARY KEY, i_price decimal(6,2))",
    "CREATE TABLE stock (s_w_id int, s_i_id int, s_quantity int, s_ytd int, s_data varchar(50), "
    "PRIMARY KEY (s_w_id, s_i_id))",
]


# ---- clients ---------------------------------------------------------------------------------------------------------


def connect(protocol, address, port):
    if protocol == "mysql":
        import pymysql

        return pymysql.connect(host=address, port=port, user="root", database="tpcc", autocommit=False)
    import psycopg

    connection = psycopg.connect(host=address, port=port, user="root", dbname="meridian", autocommit=False)
    connection.prepare_threshold = 2
    return connection


def load(protocol, address, port, warehouses):
    """Makes the tables and their rows."""
    connection = connect(protocol, address, port)
    cursor = connection.cursor()
    for table in TABLES:
        cursor.execute(table)
        connection.commit()

    def fill(into, rows):
        for at in range(0, len(rows), 500):
            cursor.execute(f"INSERT INTO {into} VALUES " + ",".join(rows[at : at + 500]))
            connection.commit()

    fill("item", [f"({i}, {1 + i % 99}.50)" for i in range(ITEMS)])
    for w in range(warehouses):
        fill("warehouse", [f"({w}, 0)"])
        fill("district", [f"({w}, {d}, 0, 1)" for d in range(DISTRICTS)])
        customers = [(d, c) for d in range(DISTRICTS) for c in range(CUSTOMERS)]
        fill("customer", [f"({w}, {d}, {c}, 0, '{'x' * 150}')" for d, c in customers])
        fill("stock", [f"({w}, {i}, 100, 0, '{'s' * 40}')" for i in range(ITEMS)])
    connection.close()


def payment(cursor, rng, own, warehouses, name):
    w, d, amount = rng.choice(own), rng.randrange(DISTRICTS), rng.randrange(1, 5000)
    of = rng.randrange(warehouses) if rng.random() < 0.15 else w
    c = rng.randrange(CUSTOMERS)
    cursor.execute("UPDATE warehouse SET w_ytd = w_ytd + %s WHERE w_id = %s", (amount, w))
    cursor.execute("UPDATE district SET d_ytd = d_ytd + %s WHERE d_w_id = %s AND d_id = %s", (amount, w, d))
    key = (of, d, c)
    cursor.execute("SELECT c_balance FROM customer WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s", key)
    cursor.fetchall()
    cursor.execute(
        "UPDATE customer SET c_balance = c_balance - %s WHERE c_w_id = %s AND c_d_id = %s AND c_id = %s", (amount, *key)
    )
    cursor.execute("INSERT INTO history VALUES (%s, %s, %s)", (name, w, amount))


def new_order(cursor, rng, own, warehouses, name):
    w, d, c = rng.choice(own), rng.randrange(DISTRICTS), rng.randrange(CUSTOMERS)
    lines = rng.randrange(5, 16)
    items = sorted(rng.sample(range(ITEMS), lines))
    cursor.execute("SELECT d_next_o_id FROM district WHERE d_w_id = %s AND d_id = %s FOR UPDATE", (w, d))
    order = cursor.fetchall()[0][0]
    cursor.execute("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = %s AND d_id = %s", (w, d))
    cursor.execute("INSERT INTO orders VALUES (%s, %s, %s, %s, %s)", (w, d, order, c, lines))
    for number, item in enumerate(items):
        of = rng.randrange(warehouses) if rng.random() < 0.01 else w
        quantity = rng.randrange(1, 11)
        cursor.execute("SELECT i_price FROM item WHERE i_id = %s", (item,))
        price = cursor.fetchall()[0][0]
        cursor.execute("SELECT s_quantity FROM stock WHERE s_w_id = %s AND s_i_id = %s FOR UPDATE", (of, item))
        left = cursor.fetchall()[0][0] - quantity
        left += 91 if left < 10 else 0
        cursor.execute(
            "UPDATE stock SET s_quantity = %s, s_ytd = s_ytd + %s WHERE s_w_id = %s AND s_i_id = %s",
            (left, quantity, of, item),
        )
        cursor.execute(
            "INSERT INTO order_line VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (w, d, order, number, item, quantity, price * quantity),
        )


def is_conflict(error):
    """Whether another transaction came in the way, so that this one is to be sent again."""
    state = getattr(error, "sqlstate", None)
    number = error.args[0] if error.args and isinstance(error.args[0], int) else None
    return state in ("40001", "40P01", "23505") or number in (1205, 1213, 1180, 1062, 1020)


def client(job):
    """Runs in a region: prints what its threads have measured, as JSON."""
    ends_at = time.time() + job["warm_up"] + job["seconds"]
    counts_from = ends_at - job["seconds"]
    latencies, aborted, lock = [], [0], threading.Lock()

    def work(nth):
        rng = random.Random(f"{job['seed']}/{job['region']}/{nth}")
        connection, done = connect(job["protocol"], job["address"], job["port"]), 0
        cursor = connection.cursor()
        for setting in (job["isolation"] or "").split("; "):
            if setting:
                cursor.execute(setting)
                connection.commit()
        own_latencies, own_aborted = [], 0
        while time.time() < ends_at:
            run, done = (payment if done % 2 else new_order), done + 1
            name, began, again = f"{job['region']}-{nth}-{done}-{job['seed']}", time.time(), rng.getstate()
            while True:
                rng.setstate(again)
                try:
                    run(cursor, rng, job["own"], job["warehouses"], name)
                    connection.commit()
                    break
                except Exception as error:
                    connection.rollback()
                    if not is_conflict(error):
                        raise
                    own_aborted += time.time() > counts_from
                    time.sleep(rng.random() * 0.02)
            if time.time() > counts_from:
                own_latencies.append((time.time() - began) * 1000)
        with lock:
            latencies.extend(own_latencies)
            aborted[0] += own_aborted

    threads = [threading.Thread(target=work, args=(nth,)) for nth in range(job["clients"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({"latencies": latencies, "aborted": aborted[0]}))


# ---- systems ---------------------------------------------------------------------------------------------------------


class System:
    """Processes of one system, one a region; ended by their own ids."""

    protocol, ended_by = "postgres", signal.SIGTERM
    # What its clients say first, and the level that they get.
    isolation, level = None, "serializable"

    def __init__(self, arguments, hosts, directory):
        self.arguments, self.hosts, self.directory, self.processes = arguments, hosts, directory, []

    def start(self, host, command):
        log = open(self.directory / f"{host['name']}.log", "ab")
        process = subprocess.Popen(host["run"] + command, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def wait_until_served(self, host, seconds=60):
        """Waits until a client in the host's region gets an answer."""
        program = (
            "import sys, json; sys.argv = ['', 'probe']; exec(open(%r).read()); " % __file__
            + "connect(%r, %r, %r).close()" % (self.protocol, *self.reached(host))
        )
        ends_at = time.time() + seconds
        while subprocess.run(host["run"] + [sys.executable, "-c", program], capture_output=True).returncode:
            if time.time() > ends_at:
                raise SystemExit(f"{type(self).__name__} at {host['name']} does not answer: see {self.directory}")
            time.sleep(0.5)

    def end(self):
        for process in reversed(self.processes):
            process.send_signal(self.ended_by)
        for process in reversed(self.processes):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


class Meridian(System):
    def up(self):
        made, rtt = self.directory / "cluster", self.arguments.rtt_ms
        nodes = ",".join(f"{host['name']}={host['address']}:26357" for host in self.hosts)
        names = [host["name"] for host in self.hosts]
        pairs = [f"{a}/{b}={rtt}ms" for at, a in enumerate(names) for b in names[at + 1 :]]
        init = ["cluster", "init", str(made), "--engine", "geogauss", "--nodes", nodes, "--distances", ",".join(pairs)]
        init += ["--survive", self.survive]
        subprocess.run([self.arguments.meridian, *init], check=True, stdout=subprocess.DEVNULL)
        for host in self.hosts:
            self.start(host, [self.arguments.meridian, "start", "--config", str(made / f"{host['name']}.toml")])
        for host in self.hosts:
            self.wait_until_served(host)

    def reached(self, host):
        return "127.0.0.1", 26257

    survive = "1"


class MeridianSession(Meridian):
    """Blocks read what their region has; a commit asks all regions whether it has changed."""

    isolation = "SET meridian.consistency = 'session'"


class MeridianFast(MeridianSession):
    """A commit is answered once its own region has merged it; the default waits until a second region has it."""

    survive = "0"


class MeridianSnapshot(Meridian):
    isolation = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ; " + MeridianSession.isolation
    level = "repeatable read"


class Galera(System):
    protocol, level = "mysql", "repeatable read"

    def up(self):
        peers = ",".join(host["address"] for host in self.hosts)
        for at, host in enumerate(self.hosts):
            data = self.directory / host["name"]
            owner = pwd.getpwnam("mysql")
            install = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=mysql", "--skip-test-db"]
            subprocess.run([*install, "--auth-root-authentication-method=normal"], check=True, capture_output=True)
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
            options = {
                "datadir": data, "user": "mysql", "socket": data / "socket", "pid-file": data / "pid",
                "bind-address": "0.0.0.0", "port": 3306, "binlog-format": "ROW", "innodb-autoinc-lock-mode": 2,
                "default-storage-engine": "InnoDB", "innodb-buffer-pool-size": "512M", "max-connections": 500,
                "wsrep-on": "ON", "wsrep-provider": GALERA, "wsrep-node-address": host["address"],
                "wsrep-cluster-address": f"gcomm://{peers}", "wsrep-sst-method": "rsync", "skip-name-resolve": "ON",
                # What its manual advises for a WAN.
                "wsrep-provider-options": "evs.send_window=512;evs.user_send_window=512;gcs.fc_limit=256",
            }
            command = ["mariadbd", "--no-defaults", *(f"--{name}={value}" for name, value in options.items())]
            self.start(host, command + (["--wsrep-new-cluster"] if at == 0 else []))
            ends_at = time.time() + 120
            socket = data / "socket"
            ask = ["mariadb", "--no-defaults", f"--socket={socket}", "-uroot", "-N", "-e"]
            state = ["SHOW STATUS LIKE 'wsrep_local_state_comment'"]
            while b"Synced" not in subprocess.run(ask + state, capture_output=True).stdout:
                if time.time() > ends_at:
                    raise SystemExit(f"Galera at {host['name']} does not answer: see {self.directory}")
                time.sleep(0.5)
            if at == 0:
                sql = "CREATE DATABASE tpcc; CREATE USER IF NOT EXISTS root@'127.0.0.1'; GRANT ALL ON *.* TO root@'127.0.0.1'"
                subprocess.run(ask + [sql], check=True)
        for host in self.hosts:
            self.wait_until_served(host)

    def reached(self, host):
        return "127.0.0.1", 3306


class Postgres(System):
    """All clients write to the first region; a commit waits until one standby has applied it."""

    level = "read committed"
    # Without waiting for its clients.
    ended_by = signal.SIGINT

    def up(self):
        programs = Path(subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True).stdout.strip())
        nobody = pwd.getpwnam("nobody")
        # Not by the caller, who has to be root to enter a region.
        as_nobody = ["setpriv", "--reuid=nobody", f"--regid={nobody.pw_gid}", "--clear-groups"]
        os.chown(self.directory, nobody.pw_uid, nobody.pw_gid)
        first, data = self.hosts[0], self.directory / self.hosts[0]["name"]
        made = [programs / "initdb", "-D", data, "-U", "root", "-A", "trust"]
        subprocess.run([*as_nobody, *made], check=True, stdout=subprocess.DEVNULL)
        (data / "pg_hba.conf").write_text("host all all 0.0.0.0/0 trust\nhost replication all 0.0.0.0/0 trust\n")
        options = ["-c", "listen_addresses=*", "-c", f"unix_socket_directories={self.directory}", "-c", "max_connections=300"]
        self.start(first, [*as_nobody, str(programs / "postgres"), "-D", str(data), *options])
        time.sleep(3)
        made = [str(programs / "createdb"), "-h", "127.0.0.1", "-U", "root", "meridian"]
        subprocess.run(first["run"] + made, check=True)
        for host in self.hosts[1:]:
            copy = self.directory / host["name"]
            source = ["-h", first["address"], "-U", "root", "-D", str(copy), "-R", "-X", "stream"]
            subprocess.run(host["run"] + [*as_nobody, str(programs / "pg_basebackup"), *source], check=True)
            settings = (copy / "postgresql.auto.conf").read_text()
            named = settings.replace("user=root", f"user=root application_name={host['name']}")
            (copy / "postgresql.auto.conf").write_text(named)
            os.chown(copy / "postgresql.auto.conf", nobody.pw_uid, nobody.pw_gid)
            self.start(host, [*as_nobody, str(programs / "postgres"), "-D", str(copy), *options])
        names = ", ".join(host["name"] for host in self.hosts[1:])
        for change in [f"synchronous_standby_names = 'ANY 1 ({names})'", "synchronous_commit = remote_apply"]:
            sql = [str(programs / "psql"), "-h", "127.0.0.1", "-U", "root", "meridian", "-c", f"ALTER SYSTEM SET {change}"]
            subprocess.run(first["run"] + sql, check=True, stdout=subprocess.DEVNULL)
        time.sleep(3)
        reload = [str(programs / "psql"), "-h", "127.0.0.1", "-U", "root", "meridian", "-c", "SELECT pg_reload_conf()"]
        subprocess.run(first["run"] + reload, check=True, stdout=subprocess.DEVNULL)

    def reached(self, host):
        return ("127.0.0.1" if host is self.hosts[0] else self.hosts[0]["address"]), 5432


SYSTEMS = {"meridian": Meridian, "meridian-session": MeridianSession, "meridian-fast": MeridianFast,
           "meridian-rr": MeridianSnapshot, "galera": Galera, "postgres": Postgres}


def measure(name, arguments, hosts, directory):
    system = SYSTEMS[name](arguments, hosts, directory)
    warehouses = arguments.warehouses * len(hosts)
    try:
        system.up()
        job = {"protocol": system.protocol, "isolation": system.isolation, "seconds": arguments.seconds,
               "warm_up": arguments.warm_up, "clients": arguments.clients, "warehouses": warehouses, "seed": arguments.seed}
        region = lambda at, host: {**job, "region": host["name"], "address": system.reached(host)[0],
                                   "port": system.reached(host)[1],
                                   "own": list(range(at * arguments.warehouses, (at + 1) * arguments.warehouses))}
        program = [sys.executable, __file__]
        subprocess.run(hosts[0]["run"] + [*program, "load", json.dumps(region(0, hosts[0]))], check=True)
        running = [subprocess.Popen(host["run"] + [*program, "client", json.dumps(region(at, host))],
                                    stdout=subprocess.PIPE, text=True) for at, host in enumerate(hosts)]
        told = [json.loads(process.communicate()[0]) for process in running]
    finally:
        system.end()
    latencies = sorted(latency for region in told for latency in region["latencies"])
    aborted = sum(region["aborted"] for region in told)
    at = lambda share: round(latencies[int(share * (len(latencies) - 1))], 1) if latencies else None
    return {
        "system": name, "workload": "tpcc 50/50", "level": system.level,
        "clients": arguments.clients * len(hosts), "throughput": round(len(latencies) / arguments.seconds, 1),
        "latency_ms": {"mean": round(sum(latencies) / max(len(latencies), 1), 1), "p50": at(0.5), "p99": at(0.99)},
        "aborts_pct": round(100 * aborted / max(len(latencies) + aborted, 1), 1),
        "by_region": {host["name"]: round(len(region["latencies"]) / arguments.seconds, 1) for host, region in zip(hosts, told)},
    }


def main():
    if len(sys.argv) > 2 and sys.argv[1] in ("client", "load"):
        job = json.loads(sys.argv[2])
        if sys.argv[1] == "client":
            return client(job)
        return load(job["protocol"], job["address"], job["port"], job["warehouses"])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", required=True, type=Path, help="where regions are")
    parser.add_argument("--meridian", default="target/release/meridian")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="which, of " + ", ".join(SYSTEMS))
    parser.add_argument("--rtt-ms", type=int, default=100, help="round trip between two regions, for Meridian's settings")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--clients", type=int, default=8, help="of each region")
    parser.add_argument("--warehouses", type=int, default=4, help="of each region")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the scratch directory")
    parser.add_argument("--out", type=Path, help="JSON of all rows")
    arguments = parser.parse_args()
    arguments.meridian = str(Path(arguments.meridian).resolve())
    hosts, rows = json.loads(arguments.hosts.read_text()), []
    scratch = Path(tempfile.mkdtemp(prefix="meridian-live-"))
    scratch.chmod(0o755)
    try:
        for name in arguments.systems.split(","):
            directory = scratch / name
            directory.mkdir()
            rows.append(measure(name, arguments, hosts, directory))
            print(json.dumps(rows[-1]), flush=True)
    finally:
        if not arguments.keep:
            shutil.rmtree(scratch, ignore_errors=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__" and sys.argv[1:2] != ["probe"]:
    main()
