//! A client that speaks the protocol by hand, so that a test says exactly what is sent and when.
//!
//! Answers are read as lines: the message's kind, then what it says (`C INSERT 0 1`, `D 1|a`, `E 23505 …`,
//! `Z I`).

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub struct Raw {
    socket: TcpStream,
}

impl Raw {
    /// A session of user `raw`.
    pub fn open(port: u16) -> Raw {
        let (raw, greeting) = Raw::start(port, &[("user", "raw"), ("database", "meridian")]);
        assert_eq!(greeting.last().map(String::as_str), Some("Z I"), "{greeting:?}");
        raw
    }

    /// A connection that has not said anything.
    pub fn silent(port: u16) -> Raw {
        Raw::over(TcpStream::connect(("127.0.0.1", port)).expect("the server listens"))
    }

    pub fn over(socket: TcpStream) -> Raw {
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.set_nodelay(true).unwrap();
        Raw { socket }
    }

    /// A connection with these parameters, and what it was told.
    pub fn start(port: u16, parameters: &[(&str, &str)]) -> (Raw, Vec<String>) {
        let mut raw = Raw::silent(port);
        let greeting = raw.greet(parameters);
        (raw, greeting)
    }

    /// Sends the start-up message; answers what came back.
    pub fn greet(&mut self, parameters: &[(&str, &str)]) -> Vec<String> {
        let mut body = vec![0, 3, 0, 0];
        for (name, value) in parameters {
            body.extend_from_slice(&[text(name), text(value)].concat());
        }
        body.push(0);
        self.send(&[&(body.len() as i32 + 4).to_be_bytes()[..], &body].concat());
        self.until_ready()
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the server reads");
    }

    /// Bytes that are no message, such as the answer about encryption.
    pub fn read_bytes(&mut self, bytes: &mut [u8]) {
        self.socket.read_exact(bytes).expect("the server answers");
    }

    /// Sends messages at once and answers everything up to ReadyForQuery or the end.
    pub fn ask(&mut self, messages: &[Vec<u8>]) -> Vec<String> {
        self.send(&messages.concat());
        self.until_ready()
    }

    /// Runs a text by the simple protocol.
    pub fn simple(&mut self, sql: &str) -> Vec<String> {
        self.ask(&[query(sql)])
    }

    /// Answers up to ReadyForQuery, or to the end of the connection.
    pub fn until_ready(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.line() {
            let is_ready = line.starts_with('Z');
            lines.push(line);
            if is_ready {
                break;
            }
        }
        lines
    }

    /// The next so many answers.
    pub fn lines(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.line().expect("the connection is open")).collect()
    }

    /// The next answer; `None` once the server has closed the connection.
    pub fn line(&mut self) -> Option<String> {
        let mut head = [0; 5];
        match self.socket.read_exact(&mut head) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer in 10 s"),
            Err(_) => return None,
        }
        let length = i32::from_be_bytes(head[1..].try_into().unwrap()) as usize - 4;
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body).expect("a message is whole");
        Some(shown(head[0], &body))
    }
}

fn shown(kind: u8, body: &[u8]) -> String {
    let mut said = match kind {
        b'Z' => String::from_utf8_lossy(body).into_owned(),
        b'C' => String::from_utf8_lossy(body).trim_end_matches('\0').to_string(),
        b'E' | b'N' => {
            let field = |code: u8| {
                let mut fields = body.split(|b| *b == 0).filter(|f| f.first() == Some(&code));
                fields.next().map(|f| String::from_utf8_lossy(&f[1..]).into_owned())
            };
            let mut said = format!("{} {}", field(b'C').unwrap(), field(b'M').unwrap());
            if field(b'S').as_deref() == Some("FATAL") {
                said.insert_str(0, "FATAL ");
            }
            if let Some(context) = field(b'W') {
                said += &format!(" [{context}]");
            }
            said
        }
        b'D' => values(body)
            .iter()
            .map(|v| v.as_deref().map_or("NULL".into(), printable))
            .collect::<Vec<_>>()
            .join("|"),
        b'T' => columns(body).join("|"),
        b't' => body[2..]
            .chunks(4)
            .map(|oid| u32::from_be_bytes(oid.try_into().unwrap()).to_string())
            .collect::<Vec<_>>()
            .join(","),
        b'S' => String::from_utf8_lossy(body).trim_end_matches('\0').replace('\0', "="),
        b'K' => i32::from_be_bytes(body[..4].try_into().unwrap()).to_string(),
        _ => String::new(),
    };
    said.insert(0, char::from(kind));
    if said.len() > 1 {
        said.insert(1, ' ');
    }
    said
}

/// Text as it is, other bytes in hexadecimal.
fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => text.into(),
        _ => bytes.iter().map(|b| format!("{b:02x}")).collect(),
    }
}

fn values(mut row: &[u8]) -> Vec<Option<Vec<u8>>> {
    let count = u16::from_be_bytes(row[..2].try_into().unwrap());
    row = &row[2..];
    (0..count)
        .map(|_| {
            let length = i32::from_be_bytes(row[..4].try_into().unwrap());
            row = &row[4..];
            let (value, rest) = row.split_at(usize::try_from(length).unwrap_or(0));
            row = rest;
            (length >= 0).then(|| value.to_vec())
        })
        .collect()
}

/// Each column as `name:type:modifier:column` with `*` behind it if it names a table.
fn columns(mut body: &[u8]) -> Vec<String> {
    let count = u16::from_be_bytes(body[..2].try_into().unwrap());
    body = &body[2..];
    (0..count)
        .map(|_| {
            let end = body.iter().position(|b| *b == 0).unwrap();
            let name = String::from_utf8_lossy(&body[..end]).into_owned();
            let rest = &body[end + 1..];
            let int = |at: usize| i32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
            let table = if int(0) == 0 { "" } else { "*" };
            let number = i16::from_be_bytes(rest[4..6].try_into().unwrap());
            let column = format!("{name}:{}:{}:{number}{table}", int(6), int(12));
            body = &rest[18..];
            column
        })
        .collect()
}

fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

/// A message of any kind.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as i32 + 4).to_be_bytes(), body].concat()
}
pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &text(sql))
}
/// Parse of a statement under a name.
pub fn parse(name: &str, sql: &str) -> Vec<u8> {
    parse_as(name, sql, &[])
}
/// The same with declared types of parameters.
pub fn parse_as(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let oids: Vec<u8> = types.iter().flat_map(|oid| oid.to_be_bytes()).collect();
    message(b'P', &[text(name), text(sql), (types.len() as u16).to_be_bytes().to_vec(), oids].concat())
}
/// Bind of a statement under a portal's name: values in `format`, results in `format`.
pub fn bind(portal: &str, statement: &str, values: &[&[u8]], format: u16) -> Vec<u8> {
    let mut body = [text(portal), text(statement)].concat();
    body.extend_from_slice(&[[0, 1], format.to_be_bytes(), (values.len() as u16).to_be_bytes()].concat());
    for value in values {
        body.extend_from_slice(&(value.len() as i32).to_be_bytes());
        body.extend_from_slice(value);
    }
    body.extend_from_slice(&[[0, 1], format.to_be_bytes()].concat());
    message(b'B', &body)
}
pub fn describe_statement(name: &str) -> Vec<u8> {
    message(b'D', &[b"S".to_vec(), text(name)].concat())
}
pub fn execute(portal: &str) -> Vec<u8> {
    message(b'E', &[text(portal), vec![0; 4]].concat())
}
pub fn flush() -> Vec<u8> {
    message(b'H', b"")
}
pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}
/// Parse, Bind and Execute of one statement without values.
pub fn run(sql: &str) -> Vec<u8> {
    [parse("", sql), bind("", "", &[], 0), execute("")].concat()
}
