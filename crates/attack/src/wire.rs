//! The protocol itself: good conversations whose bytes are then changed, cut, doubled or put in another order; first
//! packets that are none; connections that say nothing.

use crate::dice::{Dice, chance, magnitude, pick};
use crate::input::{Input, Step};
use crate::text::Text;
use rand::Rng;

pub fn input(dice: &mut Dice) -> Input {
    match dice.random_range(0..20) {
        0..=13 => conversation(dice),
        14..=17 => Input::new("first", vec![Step::First(first(dice))]),
        18 => Input::new("silent", vec![Step::Silent(Text::from(silent(dice)))]),
        _ => {
            let data: Vec<u8> = (0..magnitude(dice, 1, 5000)).map(|_| dice.random()).collect();
            Input::new(
                "noise",
                vec![if chance(dice, 50) { Step::Bytes(data.into()) } else { Step::First(data.into()) }],
            )
        }
    }
}

/// A message: its tag, its length and its body.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// The first packet of an ordinary client.
pub fn startup(user: &str, database: &str) -> Vec<u8> {
    let body = format!("user\0{user}\0database\0{database}\0application_name\0attack\0\0");
    let mut out = (body.len() as u32 + 8).to_be_bytes().to_vec();
    out.extend(196_608u32.to_be_bytes());
    out.extend(body.bytes());
    out
}

fn conversation(dice: &mut Dice) -> Input {
    let mut messages: Vec<Vec<u8>> = (0..dice.random_range(1..12)).map(|_| one(dice)).collect();
    let mut shape = "conversation";
    match dice.random_range(0..10) {
        0 => {
            shape = "order";
            for _ in 0..messages.len() {
                let (a, b) = (dice.random_range(0..messages.len()), dice.random_range(0..messages.len()));
                messages.swap(a, b);
            }
        }
        1 => {
            shape = "length";
            let n = dice.random_range(0..messages.len());
            let odd = odd_length(dice, messages[n].len());
            messages[n][1..5].copy_from_slice(&odd);
        }
        2 => {
            shape = "tag";
            let n = dice.random_range(0..messages.len());
            messages[n][0] = dice.random();
        }
        3 => {
            shape = "missing-nul";
            let n = dice.random_range(0..messages.len());
            let whole = std::mem::take(&mut messages[n]);
            let body: Vec<u8> = whole[5..].iter().copied().filter(|&b| b != 0).collect();
            messages[n] = message(whole[0], &body);
        }
        4 => {
            shape = "utf8";
            let n = dice.random_range(0..messages.len());
            if messages[n].len() > 6 {
                let at = dice.random_range(5..messages[n].len());
                messages[n][at] = dice.random_range(0x80..=0xff);
            }
        }
        5 => {
            shape = "body";
            // The frame is right, and what is in it is cut or longer.
            let n = dice.random_range(0..messages.len());
            let tag = messages[n][0];
            let mut body = messages[n][5..].to_vec();
            if chance(dice, 50) {
                body.truncate(dice.random_range(0..=body.len()));
            } else {
                body.extend((0..dice.random_range(1..20)).map(|_| dice.random::<u8>()));
            }
            messages[n] = message(tag, &body);
        }
        6 => {
            shape = "flood";
            let n = dice.random_range(0..messages.len());
            let unit = messages[n].clone();
            let times = magnitude(dice, 10, 1000);
            let text = Text::from(messages[..n].concat()).repeat(times, unit).then(message(b'S', b""));
            return Input::new(shape, vec![Step::Bytes(text)]);
        }
        _ => {}
    }
    let mut bytes = messages.concat();
    match dice.random_range(0..6) {
        0 => {
            shape = "cut";
            bytes.truncate(dice.random_range(0..=bytes.len()));
        }
        1 => {
            shape = "bits";
            for _ in 0..dice.random_range(1..8) {
                let at = dice.random_range(0..bytes.len());
                bytes[at] ^= 1 << dice.random_range(0..8);
            }
        }
        _ => {}
    }
    Input::new(shape, vec![Step::Bytes(bytes.into())])
}

fn odd_length(dice: &mut Dice, right: usize) -> [u8; 4] {
    let right = right as i64 - 1;
    let odd: i64 = match dice.random_range(0..9) {
        0 => 0,
        1 => 3,
        2 => 4,
        3 => -1,
        4 => i64::from(i32::MAX),
        5 => i64::from(i32::MIN),
        6 => 64 << 20,
        7 => right + dice.random_range(1..300),
        _ => right - dice.random_range(1..10),
    };
    (odd as i32).to_be_bytes()
}

const STATEMENTS: &[&str] = &[
    "select 1",
    "select $1::int",
    "select $1",
    "select id, c from t where id = $1 and c <> $2",
    "insert into u (id, x) values ($1, $2) on conflict do nothing",
    "update t set a = $1 where id = 1",
    "begin",
    "commit",
    "rollback",
    "",
    ";",
    "copy u from stdin",
    "copy u to stdout",
    "select * from t",
    "show all",
    "declare c cursor for select 1",
    "select 1; select 2",
    "not sql",
    "select '\u{e9}'",
];

/// One good message.
fn one(dice: &mut Dice) -> Vec<u8> {
    let name = pick(dice, &["", "", "", "a", "b", "\u{e9}"]);
    let portal = pick(dice, &["", "", "p", "q"]);
    let sql = pick(dice, STATEMENTS);
    match dice.random_range(0..24) {
        0..=3 => message(b'Q', format!("{sql}\0").as_bytes()),
        4..=7 => {
            let mut body = format!("{name}\0{sql}\0").into_bytes();
            let types: Vec<u32> = (0..dice.random_range(0..3)).map(|_| oid(dice)).collect();
            body.extend((types.len() as u16).to_be_bytes());
            types.iter().for_each(|t| body.extend(t.to_be_bytes()));
            if chance(dice, 3) {
                let at = body.len() - 2;
                body[at..].copy_from_slice(&0xffffu16.to_be_bytes());
            }
            message(b'P', &body)
        }
        8..=12 => bind(dice, portal, name),
        13 | 14 => message(
            b'D',
            format!("{}{}\0", pick(dice, &["S", "P", "X"]), pick(dice, &[name, portal])).as_bytes(),
        ),
        15..=17 => {
            let mut body = format!("{portal}\0").into_bytes();
            body.extend(i32::to_be_bytes(*pick(dice, &[&0, &1, &-1, &i32::MAX])));
            message(b'E', &body)
        }
        18 => message(b'C', format!("{}{name}\0", pick(dice, &["S", "P", "?"])).as_bytes()),
        19 => message(b'H', b""),
        20 => message(b'd', &(0..dice.random_range(0..50)).map(|_| dice.random()).collect::<Vec<u8>>()),
        21 => message(*pick(dice, &[&b'c', &b'f', &b'p', &b'X']), b"x\0"),
        22 => {
            // FunctionCall: an object id, formats, arguments.
            let mut body = 1598u32.to_be_bytes().to_vec();
            body.extend([0, 0, 0, 0, 0, 0]);
            message(b'F', &body)
        }
        _ => message(b'S', b""),
    }
}

fn oid(dice: &mut Dice) -> u32 {
    *pick(
        dice,
        &[
            &0,
            &16,
            &17,
            &20,
            &23,
            &25,
            &701,
            &1043,
            &1082,
            &1114,
            &1184,
            &1186,
            &1700,
            &2950,
            &1007,
            &1009,
            &705,
            &u32::MAX,
            &99_999,
        ],
    )
}

fn bind(dice: &mut Dice, portal: &str, name: &str) -> Vec<u8> {
    let mut body = format!("{portal}\0{name}\0").into_bytes();
    let formats: Vec<i16> =
        (0..dice.random_range(0..3)).map(|_| *pick(dice, &[&0, &0, &1, &2, &-1])).collect();
    body.extend((formats.len() as u16).to_be_bytes());
    formats.iter().for_each(|f| body.extend(f.to_be_bytes()));
    let count: u16 = if chance(dice, 5) { dice.random() } else { dice.random_range(0..3) };
    body.extend(count.to_be_bytes());
    for _ in 0..count.min(4) {
        let value: Vec<u8> = match dice.random_range(0..6) {
            0 => dice.random::<i32>().to_be_bytes().to_vec(),
            1 => dice.random::<i64>().to_be_bytes().to_vec(),
            2 => (0..dice.random_range(0..20)).map(|_| dice.random()).collect(),
            3 => b"{1,2,3}".to_vec(),
            4 => b"2026-01-01".to_vec(),
            _ => dice.random_range(0..300).to_string().into_bytes(),
        };
        let length: i32 = match dice.random_range(0..16) {
            0 => -1,
            1 => dice.random(),
            2 => -2,
            _ => value.len() as i32,
        };
        body.extend(length.to_be_bytes());
        if length != -1 {
            body.extend(value);
        }
    }
    let results: Vec<i16> = (0..dice.random_range(0..2)).map(|_| *pick(dice, &[&0, &1, &7])).collect();
    body.extend((results.len() as u16).to_be_bytes());
    results.iter().for_each(|f| body.extend(f.to_be_bytes()));
    message(b'B', &body)
}

/// Requests that come before a startup packet: their codes.
const SSL: u32 = 80_877_103;
const GSS: u32 = 80_877_104;
const CANCEL: u32 = 80_877_102;

fn first(dice: &mut Dice) -> Text {
    let packet = |code: u32, rest: &[u8]| {
        let mut out = (rest.len() as u32 + 8).to_be_bytes().to_vec();
        out.extend(code.to_be_bytes());
        out.extend_from_slice(rest);
        out
    };
    let mut bytes = match dice.random_range(0..14) {
        0 => packet(SSL, b""),
        1 => [packet(SSL, b""), packet(SSL, b""), packet(GSS, b""), startup("a", "meridian")].concat(),
        2 => packet(GSS, b""),
        3 => packet(CANCEL, &[dice.random::<[u8; 4]>(), dice.random()].concat()),
        4 => packet(CANCEL, &dice.random::<[u8; 3]>()),
        5 => packet(CANCEL, &[0; 300]),
        6 => packet(196_608 + dice.random_range(0..100), b"user\0a\0\0"),
        7 => packet(dice.random(), b"user\0a\0\0"),
        8 => packet(196_608, b"user\0a\0database\0nowhere\0\0"),
        9 => packet(196_608, b"user\0\0\0"),
        10 => packet(196_608, b"user\0a\0options\0-c statement_timeout=x -c\0_pq_.x\x001\0\0"),
        11 => {
            let head = b"user\0a\0".len() as u32;
            let times = magnitude(dice, 10, 60_000);
            let unit = b"k\0v\0";
            let mut start = (8 + head + times * unit.len() as u32 + 1).to_be_bytes().to_vec();
            start.extend(196_608u32.to_be_bytes());
            start.extend(b"user\0a\0");
            return Text::from(start).repeat(times, unit.to_vec()).then(vec![0]);
        }
        12 => [packet(SSL, b""), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec()].concat(),
        _ => startup(pick(dice, &["a", "\u{e9}", "x y"]), "meridian"),
    };
    match dice.random_range(0..5) {
        0 => {
            let odd = odd_length(dice, bytes.len());
            bytes[..4].copy_from_slice(&odd);
        }
        1 => bytes.truncate(dice.random_range(0..=bytes.len())),
        2 => {
            let at = dice.random_range(0..bytes.len());
            bytes[at] = dice.random();
        }
        _ => bytes.extend(one(dice)),
    }
    bytes.into()
}

/// The beginning of something, and then nothing.
fn silent(dice: &mut Dice) -> Vec<u8> {
    let mut bytes = startup("silent", "meridian");
    bytes.truncate(*pick(dice, &[&0, &1, &4, &7, &8, &12]));
    bytes
}
