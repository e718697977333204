//! An operator's question to a running node: how it is, whether it would end, whether another may take a lost one's place.

use super::connect::HANDSHAKE_MAX;
use super::frame::{FrameKind, FrameReader};
use super::handshake::{Hello, hear_hello, say_hello};
use super::stream::{Security, Stream};
use bytes::BytesMut;
use std::time::Duration;
use tokio::io::AsyncReadExt;

/// An answer is no longer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// What a node says to an order: the number of starts of the node that it is about, or why it is not obeyed.
pub type Ordered = Result<u64, String>;

/// What a node has answered. As long as this is kept, so is the connection.
pub struct Answered {
    pub bytes: Vec<u8>,
    stream: Box<dyn Stream>,
}

impl Answered {
    /// Waits until the node closes the connection; whether it did within this time.
    pub async fn ends_within(mut self, longest: Duration) -> bool {
        let ends = async { while !matches!(self.stream.read(&mut [0; 64]).await, Ok(0) | Err(_)) {} };
        tokio::time::timeout(longest, ends).await.is_ok()
    }
}

/// Asks the node of this name at an address, for what the words say. Errors: it does not answer, or refuses.
pub async fn ask(security: &Security, name: &str, address: &str, hello: &Hello) -> Result<Answered, String> {
    let asked = async {
        let mut stream = security.connect(name, address).await.map_err(|error| error.to_string())?;
        say_hello(&mut stream, hello).await.map_err(|error| error.to_string())?;
        hear_hello(&mut stream).await.map_err(|broken| broken.to_string())?;
        let (mut frames, mut arrived) = (FrameReader::new(ANSWER_BYTES_MAX), BytesMut::new());
        loop {
            if let Some(frame) = frames.take(&mut arrived).map_err(|error| error.to_string())? {
                return match frame.kind {
                    FrameKind::Status => Ok(Answered { bytes: frame.body.to_vec(), stream }),
                    _ => Err("no answer came".into()),
                };
            }
            match stream.read_buf(&mut arrived).await {
                Ok(0) => return Err("it closed the connection".into()),
                Ok(_) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    };
    tokio::time::timeout(HANDSHAKE_MAX, asked).await.unwrap_or_else(|_| Err("no answer in time".into()))
}
