//! A throw-away PostgreSQL server in a temporary folder.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// PostgreSQL refuses to run as root: root starts it as this user instead.
const NOBODY: u32 = 65_534;

pub struct PostgreSql {
    pub url: String,
    /// For outputs; gone when the server is.
    pub dir: PathBuf,
    bin: PathBuf,
    user: Option<u32>,
}

impl PostgreSql {
    /// A new server, or `None` if PostgreSQL is not installed.
    pub fn start() -> Option<PostgreSql> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let Some(bin) = bin() else {
            eprintln!(
                "skipped: PostgreSQL is not installed (MERIDIAN_TEST_POSTGRES_BINDIR names its programs)"
            );
            return None;
        };
        let nth = STARTED.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("meridian-bench-{}-{nth}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let user = (std::fs::metadata(&dir).unwrap().uid() == 0).then_some(NOBODY);
        if let Some(user) = user {
            chown(&dir, Some(user), Some(user)).unwrap();
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let postgres =
            PostgreSql { url: format!("postgres://tester@127.0.0.1:{port}/postgres"), dir, bin, user };
        let data = postgres.data();
        postgres
            .run("initdb", &["-D", &data, "-U", "tester", "-A", "trust", "--locale=C", "-E", "UTF8", "-N"]);
        let options = format!(
            "-p {port} -h 127.0.0.1 -k {} -c fsync=off -c synchronous_commit=off",
            postgres.dir.display()
        );
        let log = postgres.dir.join("log").display().to_string();
        postgres.run("pg_ctl", &["-D", &data, "-l", &log, "-w", "-o", &options, "start"]);
        Some(postgres)
    }

    fn data(&self) -> String {
        self.dir.join("data").display().to_string()
    }

    fn run(&self, program: &str, args: &[&str]) {
        let mut command = Command::new(self.bin.join(program));
        command.args(args).current_dir(&self.dir).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let status = command.status().unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(status.success(), "{program} {args:?}: {status}");
    }
}

impl Drop for PostgreSql {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-D", &self.data(), "-m", "immediate", "-w", "stop"]);
        // A folder that stays behind hurts nobody.
        drop(std::fs::remove_dir_all(&self.dir));
    }
}

fn bin() -> Option<PathBuf> {
    if let Some(dir) = std::env::var_os("MERIDIAN_TEST_POSTGRES_BINDIR") {
        let dir = PathBuf::from(dir);
        assert!(dir.join("initdb").exists(), "there is no initdb in {}", dir.display());
        return Some(dir);
    }
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let dir = Path::new(String::from_utf8(output.stdout).ok()?.trim()).to_path_buf();
    dir.join("initdb").exists().then_some(dir)
}
