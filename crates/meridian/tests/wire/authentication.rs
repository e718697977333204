//! Passwords, certificates, rules: who gets in, who does not, and what those are told.

use crate::raw::{Raw, message};
use crate::server::*;
use crate::tls::{Tls, config, file};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::config::{ChannelBinding, SslMode};
use tokio_postgres::{Client, Error, NoTls};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};

/// Files of a server: certificates, a private key that nobody else may read, rules, a password.
struct Files(PathBuf);

const RULES: &str = r#"
[[hba]]
type = "hostnossl"
user = "mallory"
method = "reject"

[[hba]]
type = "hostnossl"
user = "raw"
method = "scram-sha-256"

[[hba]]
type = "hostssl"
user = "carl"
address = "127.0.0.1"
method = "cert"

[[hba]]
type = "hostssl"
method = "scram-sha-256"
"#;

impl Files {
    fn new(name: &str) -> Files {
        let path = std::env::temp_dir().join(format!("meridian-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let files = Files(path);
        files.certificate("server");
        std::fs::write(files.path("hba.toml"), RULES).unwrap();
        std::fs::write(files.path("password"), "it's root's\n").unwrap();
        files
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a plain name").into()
    }
    /// Makes one of the test certificates the server's.
    fn certificate(&self, name: &str) {
        std::fs::copy(file(&format!("{name}.pem")), self.path("server.pem")).unwrap();
        std::fs::copy(file(&format!("{name}.key")), self.path("server.key")).unwrap();
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(self.path("server.key"), private).unwrap();
    }
    fn start(&self) -> Server {
        let [cert, key] = [self.path("server.pem"), self.path("server.key")];
        let [hba, password] = [self.path("hba.toml"), self.path("password")];
        let authorities = file("ca.pem");
        let security = [
            "--tls-cert",
            &cert,
            "--tls-key",
            &key,
            "--tls-client-ca",
            &authorities,
            "--hba-file",
            &hba,
            "--root-password-file",
            &password,
        ];
        Server::start_with(&[&["--regions", "us"][..], &security].concat(), 1)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wish(server: &Server, user: &str, password: &str) -> tokio_postgres::Config {
    let mut wish = tokio_postgres::Config::new();
    wish.host("127.0.0.1").port(server.ports[0]).user(user).password(password).dbname("meridian");
    wish
}

/// A session over TLS.
async fn encrypted(server: &Server, user: &str, password: &str) -> Result<Client, Error> {
    let wish = wish(server, user, password).ssl_mode(SslMode::Require).to_owned();
    open(wish, false).await
}

async fn open(wish: tokio_postgres::Config, with_certificate: bool) -> Result<Client, Error> {
    let (client, connection) = wish.connect(Tls(config(with_certificate))).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn told(error: Error) -> (String, String) {
    let told = error.as_db_error().unwrap_or_else(|| panic!("{error:?}"));
    (told.code().code().into(), told.message().into())
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_a_password_or_a_certificate_gets_in() {
    let files = Files::new("doors");
    let server = files.start();
    let refused = |result: Result<Client, Error>| told(result.err().expect("it is refused"));
    let failed =
        |user: &str| ("28P01".to_string(), format!("password authentication failed for user \"{user}\""));

    // A binding to the certificate, which both sides see, is taken where it is offered.
    let wanted = wish(&server, "root", "it's root's")
        .ssl_mode(SslMode::Require)
        .channel_binding(ChannelBinding::Require)
        .to_owned();
    let root = open(wanted, false).await.expect("root has this password");
    run(
        &root,
        "CREATE ROLE ann LOGIN PASSWORD 'pencil' CONNECTION LIMIT 1; CREATE USER carl; CREATE USER none_yet; \
         CREATE USER late PASSWORD 'pencil' VALID UNTIL '2020-01-01'; CREATE ROLE crowd PASSWORD 'pencil'; \
         CREATE USER kept PASSWORD 'SCRAM-SHA-256$4096:AAECAwQFBgcICQoLDA0ODw==$FIIaYDn/d7yF1SyLQcCl6sX1ApyBVLpr0yBH4DyPZJk=:v4AZxk4jp3PMnlOIDJAMVaHmtwRWVfkGXlZC9IcJNVE='",
    )
    .await;

    // Who is not there, has no password, had one, or has another one is told the same.
    assert_eq!(refused(encrypted(&server, "root", "wrong").await), failed("root"));
    for user in ["nobody", "none_yet", "late"] {
        assert_eq!(refused(encrypted(&server, user, "pencil").await), failed(user));
    }
    assert_eq!(
        refused(encrypted(&server, "crowd", "pencil").await),
        ("28000".into(), "role \"crowd\" is not permitted to log in".into())
    );

    let ann = encrypted(&server, "ann", "pencil").await.expect("ann has this password");
    assert_eq!(
        refused(encrypted(&server, "ann", "pencil").await),
        ("53300".into(), "too many connections for role \"ann\"".into())
    );
    assert_eq!(value(&ann, "SELECT current_user").await, "ann");

    // A certificate is one's own or nobody's.
    let wanted = wish(&server, "carl", "").ssl_mode(SslMode::Require).to_owned();
    let carl = open(wanted, true).await.expect("the certificate is carl's");
    assert_eq!(value(&carl, "SELECT session_user").await, "carl");
    assert_eq!(
        refused(encrypted(&server, "carl", "pencil").await),
        ("28000".into(), "certificate authentication failed for user \"carl\"".into())
    );

    // Rules: the first that fits, or none.
    let plain = |user: &str| {
        let wanted = wish(&server, user, "it's root's").ssl_mode(SslMode::Disable).to_owned();
        async move { wanted.connect(NoTls).await.map(|(client, _)| client) }
    };
    let from =
        |user: &str| format!("host \"127.0.0.1\", user \"{user}\", database \"meridian\", no encryption");
    assert_eq!(
        refused(plain("root").await),
        ("28000".into(), format!("no pg_hba.conf entry for {}", from("root")))
    );
    assert_eq!(
        refused(plain("mallory").await),
        ("28000".into(), format!("pg_hba.conf rejects connection for {}", from("mallory")))
    );

    // No secret is shown to anybody.
    for table in ["pg_authid", "pg_roles", "pg_user", "pg_stat_activity"] {
        let shown = rows(&root, &format!("SELECT * FROM {table}")).await.unwrap().join("\n");
        assert!(!shown.contains("pencil") && !shown.contains("SCRAM-SHA-256$"), "{table}: {shown}");
    }
    run(&ann, "ALTER USER ann PASSWORD 'crayon'").await;
    let shown = value(&root, "SELECT query FROM pg_stat_activity WHERE usename = 'ann'").await;
    assert_eq!(shown, "ALTER USER ann PASSWORD <not shown>");
    let shown = value(&ann, "SELECT query FROM pg_stat_activity WHERE usename = 'root'").await;
    assert_eq!(shown, "<insufficient privilege>");
    drop(ann);
    assert_eq!(until(&server, "ann", "crayon").await, None);

    // Rules and certificates are read again; what cannot be read leaves them as they are.
    std::fs::write(files.path("hba.toml"), "[[hba]]\nmethod = \"nonsense\"").unwrap();
    server.hang_up();
    files.certificate("renewed");
    std::fs::write(files.path("hba.toml"), "[[hba]]\nuser = \"root\"\nmethod = \"trust\"").unwrap();
    server.hang_up();
    // The first signal may have found the old certificate and the new rules: the second one finds both.
    let renewed = std::fs::read(file("renewed.pem")).map(pem).unwrap();
    let since = Instant::now();
    while plain("root").await.is_err() || certificate_of(&server) != renewed {
        assert!(since.elapsed() < Duration::from_secs(10), "the rules or the certificate are not read again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(value(&root, "SELECT 1").await, "1", "who is connected stays so");
}

/// Tries until there is a place again; what it was refused with if that is something else.
async fn until(server: &Server, user: &str, password: &str) -> Option<(String, String)> {
    loop {
        match encrypted(server, user, password).await.map_err(told) {
            Ok(_) => return None,
            Err((state, _)) if state == "53300" => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(other) => return Some(other),
        }
    }
}

fn pem(text: Vec<u8>) -> Vec<u8> {
    use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
    CertificateDer::from_pem_slice(&text).unwrap().to_vec()
}

const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A connection that is encrypted by hand.
fn handshake(server: &Server) -> StreamOwned<ClientConnection, std::net::TcpStream> {
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", server.ports[0])).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.write_all(&SSL_REQUEST).unwrap();
    let mut answer = [0];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"S");
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = StreamOwned::new(ClientConnection::new(config(false), name).unwrap(), socket);
    tls.flush().unwrap();
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock).unwrap();
    }
    tls
}

fn certificate_of(server: &Server) -> Vec<u8> {
    handshake(server).conn.peer_certificates().unwrap()[0].to_vec()
}

fn startup(user: &str) -> Vec<u8> {
    let body = [&[0, 3, 0, 0][..], b"user\0", user.as_bytes(), b"\0database\0meridian\0\0"].concat();
    [&(body.len() as i32 + 4).to_be_bytes()[..], &body].concat()
}

fn initial(mechanism: &str, first: &[u8]) -> Vec<u8> {
    let length = (first.len() as i32).to_be_bytes();
    message(b'p', &[mechanism.as_bytes(), b"\0", &length, first].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_bytes_before_a_session_are_refused() {
    let files = Files::new("odd");
    let server = files.start();
    let port = server.ports[0];
    let fatal = |lines: Vec<String>| lines.last().cloned().unwrap_or_default();

    // What comes before the handshake would count as said behind it.
    let mut raw = Raw::silent(port);
    raw.send(&[&SSL_REQUEST[..], &startup("raw")].concat());
    assert_eq!(fatal(raw.until_ready()), "E FATAL 08P01 received unencrypted data after SSL request");
    // Bytes that are no handshake end the connection, without a word.
    let mut socket = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.write_all(&SSL_REQUEST).unwrap();
    let mut answer = [0];
    socket.read_exact(&mut answer).unwrap();
    socket.write_all(&startup("raw")).unwrap();
    let mut told = Vec::new();
    _ = socket.read_to_end(&mut told);
    assert!(told.first().is_none_or(|kind| *kind == 21), "an alert of TLS or nothing: {told:?}");
    // A second request, behind the handshake.
    let mut tls = handshake(&server);
    tls.write_all(&SSL_REQUEST).unwrap();
    let mut told = Vec::new();
    _ = tls.read_to_end(&mut told);
    let told = String::from_utf8_lossy(&told).into_owned();
    assert!(told.contains("08P01") && told.contains("encryption was agreed already"), "{told}");

    // The messages of SCRAM.
    let asked = |messages: &[Vec<u8>]| {
        let mut raw = Raw::silent(port);
        raw.send(&startup("raw"));
        assert_eq!(raw.lines(1), ["R"]);
        raw.send(&messages.concat());
        fatal(raw.until_ready())
    };
    let plain = |first: &[u8]| asked(&[initial("SCRAM-SHA-256", first)]);
    for first in [&b""[..], b"n", b"n,,n=", b"z,,n=,r=abc", b"n,,n=,x=abc", b"n,,n=\xff,r=abc"] {
        assert_eq!(plain(first), "E FATAL 08P01 malformed SCRAM message", "{first:?}");
    }
    assert_eq!(plain(b"p=tls-server-end-point,,n=,r=abc"), "E FATAL 08P01 malformed SCRAM message");
    assert_eq!(plain(b"n,a=root,n=,r=abc").get(..13), Some("E FATAL 0A000"));
    assert_eq!(plain(b"n,,n=,r=a\x01b"), "E FATAL 08P01 non-printable characters in SCRAM nonce");
    assert_eq!(
        asked(&[initial("SCRAM-SHA-256-PLUS", b"p=tls-server-end-point,,n=,r=abc")]),
        "E FATAL 08P01 client selected an invalid SASL authentication mechanism",
        "without TLS there is nothing to bind to"
    );
    assert_eq!(
        asked(&[initial("MD5", b"x")]),
        "E FATAL 08P01 client selected an invalid SASL authentication mechanism"
    );
    assert_eq!(
        asked(&[crate::raw::query("SELECT 1")]),
        "E FATAL 08P01 expected SASL response, got message type 81"
    );
    assert_eq!(asked(&[message(b'p', b"no end")]), "E FATAL 08P01 invalid string in message");
    let first = initial("SCRAM-SHA-256", b"n,,n=,r=abc");
    for (last, wanted) in [
        (&b"c=biws,r=abc,p=AAAA"[..], "E FATAL 08P01 invalid SCRAM response"),
        (
            b"c=eSws,r=abc,p=AAAA",
            "E FATAL 08P01 unexpected SCRAM channel-binding attribute in client-final-message",
        ),
        (b"c=biws,r=abc", "E FATAL 08P01 malformed SCRAM message"),
        (b"", "E FATAL 08P01 malformed SCRAM message"),
    ] {
        assert_eq!(asked(&[first.clone(), message(b'p', last)]), wanted);
    }
    // Any start of any of these messages, and any of their bytes turned around, is refused too.
    let whole = initial("SCRAM-SHA-256", b"n,,n=,r=abc");
    for at in (5..whole.len()).step_by(3) {
        let mut turned = whole.clone();
        turned[at] ^= 0x80;
        let told = asked(&[turned, message(b'p', b"c=biws,r=abc,p=AAAA")]);
        assert!(told.starts_with("E FATAL "), "byte {at}: {told}");
    }
    // None of it harmed anybody.
    let root = encrypted(&server, "root", "it's root's").await.expect("root gets in");
    assert_eq!(value(&root, "SELECT 1").await, "1");
}

#[test]
fn an_address_that_others_reach_needs_tls() {
    let files = Files::new("refusals");
    let refused = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_meridian"))
            .args(["start", "--port", "0", "--wan", "local", "--regions", "us"])
            .args(arguments)
            .stdout(Stdio::null())
            .output()
            .expect("the command runs");
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["--listen", "0.0.0.0"]).contains("--insecure"));
    let (cert, key) = (files.path("server.pem"), files.path("server.key"));
    assert!(refused(&["--tls-cert", &cert]).contains("--tls-key"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let told = refused(&["--tls-cert", &cert, "--tls-key", &key]);
    assert!(told.contains("chmod 600") && told.contains("server.key"), "{told}");
    assert!(refused(&["--tls-cert", &key, "--tls-key", &key]).contains("server.key"));
    std::fs::write(files.path("hba.toml"), "[[hba]]\nmethod = \"md5\"").unwrap();
    assert!(refused(&["--hba-file", &files.path("hba.toml")]).contains("rule 1"));
}
