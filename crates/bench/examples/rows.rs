//! A result of many rows over the wire, as text and in binary, from two servers in turns.
//!
//! ```text
//! cargo run --release -p bench --example rows -- 127.0.0.1:27140/root/meridian 127.0.0.1:5432/bench/bench [rows] [rounds]
//! ```
//!
//! The client reads bytes and counts messages; it decodes nothing, so that the time is the server's. The servers must
//! let it in without a password.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A connection that speaks just enough of the protocol.
struct Client {
    socket: TcpStream,
    buffer: Vec<u8>,
}

/// What a statement answered.
#[derive(Default)]
struct Answer {
    rows: u64,
    bytes: u64,
}

impl Client {
    /// `host:port/user/database`.
    fn connect(target: &str) -> Result<Client> {
        let [address, user, database] = target.split('/').collect::<Vec<_>>()[..] else {
            return Err(format!("{target}: wanted host:port/user/database").into());
        };
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let mut client = Client { socket, buffer: vec![0; 1 << 20] };
        let mut body = 196_608i32.to_be_bytes().to_vec();
        for word in ["user", user, "database", database, ""] {
            body.extend_from_slice(word.as_bytes());
            body.push(0);
        }
        let mut packet = (body.len() as i32 + 4).to_be_bytes().to_vec();
        packet.extend_from_slice(&body);
        client.socket.write_all(&packet)?;
        client.answer()?;
        Ok(client)
    }

    /// Reads up to ReadyForQuery, or to CopyInResponse.
    fn answer(&mut self) -> Result<Answer> {
        let mut answer = Answer::default();
        let (mut kept, mut skip) = (0, 0usize);
        loop {
            let count = self.socket.read(&mut self.buffer[kept..])?;
            if count == 0 {
                return Err("the server closed the connection".into());
            }
            answer.bytes += count as u64;
            let end = kept + count;
            let mut at = skip.min(end);
            skip -= at;
            // Headers of messages; bodies are skipped, except an error's.
            while skip == 0 && end - at >= 5 {
                let length = i32::from_be_bytes(self.buffer[at + 1..at + 5].try_into()?) as usize;
                match self.buffer[at] {
                    b'Z' | b'G' => return Ok(answer),
                    b'D' => answer.rows += 1,
                    b'E' => {
                        let text = String::from_utf8_lossy(&self.buffer[at + 5..end.min(at + 1 + length)]);
                        return Err(text.replace('\0', " ").into());
                    }
                    _ => {}
                }
                let next = at + 1 + length;
                skip = next.saturating_sub(end);
                at = next.min(end);
            }
            self.buffer.copy_within(at..end, 0);
            kept = end - at;
        }
    }

    fn send(&mut self, messages: &[(u8, Vec<u8>)]) -> Result<()> {
        let mut packet = Vec::new();
        for (kind, body) in messages {
            packet.push(*kind);
            packet.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
            packet.extend_from_slice(body);
        }
        Ok(self.socket.write_all(&packet)?)
    }

    fn simple(&mut self, sql: &str) -> Result<Answer> {
        self.send(&[(b'Q', [sql.as_bytes(), b"\0"].concat())])?;
        self.answer()
    }

    /// All columns in binary.
    fn binary(&mut self, sql: &str) -> Result<Answer> {
        let parse = [b"\0", sql.as_bytes(), b"\0\0\0"].concat();
        // Unnamed portal and statement, no parameters, one format for all columns.
        let bind = b"\0\0\0\0\0\0\0\x01\0\x01".to_vec();
        let execute = b"\0\0\0\0\0".to_vec();
        self.send(&[(b'P', parse), (b'B', bind), (b'E', execute), (b'S', Vec::new())])?;
        self.answer()
    }

    fn load(&mut self, rows: u64) -> Result<()> {
        self.simple("DROP TABLE IF EXISTS bench_rows")?;
        self.simple(
            "CREATE TABLE bench_rows (id bigint PRIMARY KEY, n int, small smallint, price numeric(12,2), ratio double precision, \
             name text, note varchar(40), day date, at timestamp, made timestamptz, flag boolean, u uuid)",
        )?;
        for first in (0..rows).step_by(10_000) {
            self.simple("COPY bench_rows FROM STDIN")?;
            let mut lines = String::new();
            for id in first..(first + 10_000).min(rows) {
                lines.push_str(&line(id));
            }
            self.send(&[(b'd', lines.into_bytes()), (b'c', Vec::new())])?;
            self.answer()?;
        }
        Ok(())
    }
}

/// A row whose values look drawn and are the same at every server.
fn line(id: u64) -> String {
    let draw = |salt: u64| {
        let mut x = (id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03);
        x = (x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^ (x >> 29)
    };
    let note = match draw(5) % 4 {
        0 => "\\N".to_string(),
        _ => format!("note {:x}", draw(6)),
    };
    let (day, at) = (1 + draw(7) % 28, draw(8));
    let moment = format!(
        "{}-{:02}-{day:02} {:02}:{:02}:{:02}.{:06}",
        1990 + at % 40,
        1 + at % 12,
        at % 24,
        at % 60,
        at % 59,
        draw(9) % 1_000_000
    );
    format!(
        "{id}\t{}\t{}\t{}.{:02}\t{}\tname of {}\t{note}\t{}\t{moment}\t{moment}+00\t{}\t{:016x}{:016x}\n",
        draw(1) as i32,
        draw(2) as i16,
        draw(3) % 1_000_000,
        draw(3) % 100,
        draw(4) as i64 as f64 / 1e12,
        draw(5) % 100_000,
        &moment[..10],
        if draw(10) % 2 == 0 { 't' } else { 'f' },
        draw(11),
        draw(12),
    )
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default: u64| arguments.get(n).map_or(Ok(default), |text| text.parse());
    let [first, second] = arguments.get(..2).ok_or("wanted two servers")? else { unreachable!("two") };
    let (rows, rounds) = (number(2, 1_000_000)?, number(3, 7)?);
    let mut clients = [Client::connect(first)?, Client::connect(second)?];
    for client in &mut clients {
        let count = client.simple("SELECT 1 FROM bench_rows").map_or(0, |answer| answer.rows);
        if count != rows {
            client.load(rows)?;
        }
    }
    let all = "SELECT id, n, small, price, ratio, name, note, day, at, made, flag, u FROM bench_rows";
    let numbers = "SELECT id, n, small, price, ratio FROM bench_rows";
    let statements = [("12 columns", all), ("5 numbers", numbers)];
    for (what, sql) in statements {
        for is_binary in [false, true] {
            let mut times: [Vec<f64>; 2] = Default::default();
            let mut bytes = [0; 2];
            for round in 0..=rounds {
                for (n, client) in clients.iter_mut().enumerate() {
                    let start = Instant::now();
                    let answer = if is_binary { client.binary(sql)? } else { client.simple(sql)? };
                    if answer.rows != rows {
                        return Err(format!("{} rows instead of {rows}", answer.rows).into());
                    }
                    bytes[n] = answer.bytes;
                    // The first round warms up.
                    if round > 0 {
                        times[n].push(start.elapsed().as_secs_f64() * 1e3);
                    }
                }
            }
            let [a, b] = times.map(median);
            let form = if is_binary { "binary" } else { "text" };
            println!(
                "{what}, {form}: {a:.0} ms ({:.0} MB), {b:.0} ms ({:.0} MB): {:.2} x",
                bytes[0] as f64 / 1e6,
                bytes[1] as f64 / 1e6,
                b / a
            );
        }
    }
    Ok(())
}
