//! What a client may say, read from one frame each.
//!
//! IN: a frame's body, no byte more. OUT: a message, or an error that leaves the connection usable, since its
//! bytes are accounted for. KEEPS: text is UTF-8 without NUL; counts are checked against the bytes that are
//! there before anything is allocated; bytes left over are refused (08P01). pgwire's reader replaces invalid
//! UTF-8, reads beyond the message and panics on a count that lies, so frames are read here.

use base::error::{SqlError, SqlResult, SqlState};
use base::text::encoding;
use bytes::{Buf, Bytes};

/// One message without its length, as it was cut from the input.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub body: Bytes,
}

/// What DESCRIBE and CLOSE name.
#[derive(Debug, PartialEq)]
pub enum Target {
    Statement(String),
    Portal(String),
}

/// A message of a conversation that has started.
#[derive(Debug)]
pub enum Message {
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Target),
    Execute {
        portal: String,
        rows_max: usize,
    },
    Close(Target),
    Sync,
    Flush,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    FunctionCall,
    /// An answer to a question about passwords, which is asked before the conversation only.
    Password,
}

/// Bind: values for a statement's parameters, under a portal's name.
#[derive(Debug)]
pub struct Bind {
    pub portal: String,
    pub statement: String,
    /// One for all, one each, or none (all text).
    pub parameter_formats: Vec<i16>,
    pub parameters: Vec<Option<Bytes>>,
    pub result_formats: Vec<i16>,
}

/// Whether a frame may be longer than [`SMALL_BYTES_MAX`]; `None`: no message is of this kind.
pub fn may_be_long(kind: u8) -> Option<bool> {
    match kind {
        b'Q' | b'P' | b'B' | b'F' | b'd' => Some(true),
        b'D' | b'E' | b'C' | b'S' | b'H' | b'X' | b'c' | b'f' | b'p' => Some(false),
        _ => None,
    }
}

/// Longest frame of kinds that hold names and numbers only, in bytes.
pub const SMALL_BYTES_MAX: usize = 10_000;

impl Frame {
    /// Whether an error in it is answered once and silences everything up to the next Sync.
    pub fn is_extended(&self) -> bool {
        matches!(self.kind, b'P' | b'B' | b'D' | b'E' | b'C' | b'H')
    }

    /// Reads the message. Errors: 08P01 for a body of another form, 22021 for text that is none.
    pub fn read(self) -> SqlResult<Message> {
        let mut body = Reader(self.body);
        let message = match self.kind {
            b'Q' => Message::Query(body.text()?),
            b'P' => {
                let (name, sql) = (body.text()?, body.text()?);
                let count = body.count(4)?;
                let types = (0..count).map(|_| body.u32()).collect::<SqlResult<_>>()?;
                Message::Parse { name, sql, types }
            }
            b'B' => Message::Bind(body.bind()?),
            b'D' => Message::Describe(body.target("DESCRIBE")?),
            b'C' => Message::Close(body.target("CLOSE")?),
            b'E' => {
                let portal = body.text()?;
                // PostgreSQL takes a negative limit for none.
                let rows_max = usize::try_from(body.u32()? as i32).unwrap_or(0);
                Message::Execute { portal, rows_max }
            }
            b'S' => Message::Sync,
            b'H' => Message::Flush,
            b'X' => return Ok(Message::Terminate),
            b'd' => return Ok(Message::CopyData(body.0)),
            b'c' => Message::CopyDone,
            b'f' => Message::CopyFail(body.text()?),
            b'F' => return Ok(Message::FunctionCall),
            _ => return Ok(Message::Password),
        };
        match body.0.is_empty() {
            true => Ok(message),
            false => Err(violation("invalid message format")),
        }
    }
}

/// Reads a body from front to back.
struct Reader(Bytes);

impl Reader {
    fn text(&mut self) -> SqlResult<String> {
        let end = memchr::memchr(0, &self.0);
        let bytes = self.0.split_to(end.ok_or_else(|| violation("invalid string in message"))?);
        self.0.advance(1);
        encoding::text(&bytes).map(str::to_string)
    }

    fn u8(&mut self) -> SqlResult<u8> {
        self.0.try_get_u8().map_err(|_| short())
    }
    fn u16(&mut self) -> SqlResult<u16> {
        self.0.try_get_u16().map_err(|_| short())
    }
    fn u32(&mut self) -> SqlResult<u32> {
        self.0.try_get_u32().map_err(|_| short())
    }

    /// A number of elements, of which each takes at least so many bytes.
    fn count(&mut self, bytes_each: usize) -> SqlResult<usize> {
        let count = usize::from(self.u16()?);
        if count * bytes_each > self.0.len() { Err(short()) } else { Ok(count) }
    }

    fn formats(&mut self) -> SqlResult<Vec<i16>> {
        let count = self.count(2)?;
        (0..count).map(|_| self.u16().map(|code| code as i16)).collect()
    }

    fn target(&mut self, word: &str) -> SqlResult<Target> {
        let kind = self.u8()?;
        let name = self.text()?;
        match kind {
            b'S' => Ok(Target::Statement(name)),
            b'P' => Ok(Target::Portal(name)),
            other => Err(violation(format!("invalid {word} message subtype {other}"))),
        }
    }

    fn bind(&mut self) -> SqlResult<Bind> {
        let (portal, statement) = (self.text()?, self.text()?);
        let parameter_formats = self.formats()?;
        let count = self.count(4)?;
        let mut parameters = Vec::with_capacity(count);
        for _ in 0..count {
            let length = self.u32()? as i32;
            if length == -1 {
                parameters.push(None);
                continue;
            }
            let length = usize::try_from(length).ok().filter(|length| *length <= self.0.len());
            parameters.push(Some(self.0.split_to(length.ok_or_else(short)?)));
        }
        let result_formats = self.formats()?;
        Ok(Bind { portal, statement, parameter_formats, parameters, result_formats })
    }
}

/// What a connection begins with. These packets have a length and no kind.
#[derive(Debug, PartialEq)]
pub enum Opening {
    /// Asks for TLS.
    Ssl,
    /// Asks for GSSAPI encryption.
    Gss,
    /// Wants another connection's statement ended.
    Cancel {
        process: i32,
        secret: i32,
    },
    Startup {
        major: u16,
        minor: u16,
        parameters: Vec<(String, String)>,
    },
}

const CANCEL: u32 = 80_877_102;
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// Longest opening packet, in bytes.
pub const OPENING_BYTES_MAX: usize = 10_000;

impl Opening {
    /// Reads a packet without its length. Errors: 08P01, 22021.
    pub fn read(body: Bytes) -> SqlResult<Opening> {
        let mut body = Reader(body);
        let code = body.u32()?;
        let opening = match code {
            SSL => Opening::Ssl,
            GSS => Opening::Gss,
            CANCEL => {
                let process = body.u32()? as i32;
                // Keys are of four bytes here; a longer one is nobody's.
                let secret = body.u32()? as i32;
                Opening::Cancel { process, secret }
            }
            version => {
                let (major, minor) = ((version >> 16) as u16, version as u16);
                let mut parameters = Vec::new();
                if major == 3 {
                    while body.0.first().is_some_and(|b| *b != 0) {
                        parameters.push((body.text()?, body.text()?));
                    }
                    if body.0.as_ref() != b"\0" {
                        let layout = "invalid startup packet layout: expected terminator as last byte";
                        return Err(violation(layout));
                    }
                }
                return Ok(Opening::Startup { major, minor, parameters });
            }
        };
        match body.0.is_empty() {
            true => Ok(opening),
            false => Err(violation("invalid message format")),
        }
    }
}

fn short() -> SqlError {
    violation("insufficient data left in message")
}

fn violation(what: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: u8, body: &[u8]) -> SqlResult<Message> {
        Frame { kind, body: Bytes::copy_from_slice(body) }.read()
    }
    fn refusal(kind: u8, body: &[u8]) -> (String, String) {
        let error = read(kind, body).unwrap_err();
        (error.state.as_str().to_string(), error.message.clone())
    }

    #[test]
    fn a_frame_is_read_from_its_own_bytes() {
        assert!(matches!(read(b'Q', b"select 1\0"), Ok(Message::Query(sql)) if sql == "select 1"));
        assert_eq!(refusal(b'Q', b"select 1").1, "invalid string in message");
        assert_eq!(refusal(b'Q', b"select 1\0; drop").1, "invalid message format");
        assert_eq!(refusal(b'Q', b"\xff\0").0, "22021");
        let bind = b"\0s\0\0\x01\0\x01\0\x02\0\0\0\x02ab\xff\xff\xff\xff\0\x01\0\x01";
        let Ok(Message::Bind(read_bind)) = read(b'B', bind) else { panic!("a bind is a bind") };
        assert_eq!((read_bind.statement.as_str(), &read_bind.parameter_formats[..]), ("s", &[1i16][..]));
        assert_eq!(read_bind.parameters, [Some(Bytes::from_static(b"ab")), None]);
        for end in 0..bind.len() {
            assert_eq!(refusal(b'B', &bind[..end]).0, "08P01", "{end} bytes");
        }
        assert_eq!(refusal(b'B', &[&bind[..], b"!"].concat()).1, "invalid message format");
        // A count that the bytes cannot hold is refused before room is made for it.
        assert_eq!(refusal(b'P', b"\0\0\x7f\xff").1, "insufficient data left in message");
        assert_eq!(refusal(b'D', b"X\0").1, "invalid DESCRIBE message subtype 88");
        assert_eq!(refusal(b'S', b"\0").1, "invalid message format");
    }

    #[test]
    fn an_opening_ends_where_it_says() {
        let read = |body: &[u8]| Opening::read(Bytes::copy_from_slice(body));
        let parameters = vec![("user".to_string(), "me".to_string())];
        assert_eq!(read(b"\0\x03\0\0user\0me\0\0"), Ok(Opening::Startup { major: 3, minor: 0, parameters }));
        for body in
            [&b"\0\x03\0\0user\0me\0"[..], b"\0\x03\0\0user\0me\0\0\0", b"\0\x03\0\0user\0", b"\0\x03"]
        {
            assert_eq!(read(body).unwrap_err().state, SqlState::PROTOCOL_VIOLATION, "{body:?}");
        }
        assert_eq!(read(b"\x04\xd2\x16\x2f"), Ok(Opening::Ssl));
        assert_eq!(
            read(b"\x04\xd2\x16\x2e\0\0\0\x05\0\0\0\x06"),
            Ok(Opening::Cancel { process: 5, secret: 6 })
        );
    }
}
