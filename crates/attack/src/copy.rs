//! Data of COPY FROM STDIN in its three formats, mutated: quotes that never end, fields too few or too many, counts
//! and lengths that lie, and rows of any length.

use crate::dice::{Dice, chance, magnitude, pick};
use crate::input::{Input, Step};
use crate::text::Text;
use rand::Rng;

const COLUMNS: usize = 3;

pub fn input(dice: &mut Dice) -> Input {
    let table = "(id, x, y)";
    match dice.random_range(0..10) {
        0..=3 => {
            let options = pick(
                dice,
                &[
                    "",
                    " with (format text, null 'x')",
                    " with (delimiter '|')",
                    " with (format text, header)",
                    " with (encoding 'utf8')",
                ],
            );
            Input::new(
                "text",
                vec![Step::Copy(format!("copy u {table} from stdin{options}").into(), text(dice, b'\t'))],
            )
        }
        4..=6 => {
            let options = pick(
                dice,
                &[
                    "",
                    ", header",
                    ", quote ''''",
                    ", escape '\\'",
                    ", null 'NULL'",
                    ", delimiter ';'",
                    ", force_not_null (x)",
                    ", header match",
                ],
            );
            let sql = format!("copy u {table} from stdin with (format csv{options})");
            Input::new("csv", vec![Step::Copy(sql.into(), text(dice, b','))])
        }
        7 | 8 => Input::new(
            "binary",
            vec![Step::Copy(format!("copy u {table} from stdin with (format binary)").into(), binary(dice))],
        ),
        _ => {
            let odd = pick(
                dice,
                &[
                    "copy u from stdin with (format nonsense)",
                    "copy nowhere from stdin",
                    "copy u (id, id) from stdin",
                    "copy u (nothing) from stdin",
                    "copy u from stdin with (delimiter 'ab')",
                    "copy u from stdin with (null E'\\n')",
                    "copy u from stdin; select 1",
                    "begin; copy u from stdin",
                    "copy u from '/etc/hostname'",
                    "copy u from program 'true'",
                    "copy u to stdout with (format csv, header)",
                    "copy (select * from t) to stdout with (format binary)",
                    "copy u from stdin with (force_null (nothing))",
                ],
            );
            Input::new("statement", vec![Step::Copy(odd.into(), text(dice, b'\t'))])
        }
    }
}

/// Lines, most of them good.
fn text(dice: &mut Dice, delimiter: u8) -> Text {
    let mut out = Text::default();
    for n in 0..dice.random_range(1..30) {
        let mut line = Vec::new();
        let fields = if chance(dice, 5) { dice.random_range(0..6) } else { COLUMNS };
        for field in 0..fields {
            if field > 0 {
                line.push(delimiter);
            }
            match field {
                0 => line.extend((200_000 + n + dice.random_range(0..3)).to_string().bytes()),
                1 => line.extend(dice.random_range(0..300).to_string().bytes()),
                _ => line.extend(dice.random_range(0..300).to_string().bytes()),
            }
        }
        if chance(dice, 25) {
            mutate(dice, &mut line);
        }
        out = out.then(line);
        if chance(dice, 4) {
            let unit = pick(dice, &["x", "\"", "\\", "\t", ",", "\\N", "é", "\"\"", "\\x41", "\\101", "0"]);
            out = out.repeat(magnitude(dice, 10, 300_000), unit);
        }
        out = out.then(pick(dice, &["\n", "\n", "\n", "\n", "\n", "\r\n", "\r", "", "\n\n", "\n\\.\n"]));
    }
    out
}

fn mutate(dice: &mut Dice, line: &mut Vec<u8>) {
    let at = dice.random_range(0..=line.len());
    match dice.random_range(0..8) {
        0 => _ = line.splice(at..at, *b"\""),
        1 => _ = line.splice(at..at, *b"\\"),
        2 => line.insert(at, 0),
        3 => line.insert(at, dice.random_range(0x80..=0xff)),
        4 => line.truncate(at),
        5 => _ = line.splice(at..at, *b"\\N"),
        6 => _ = line.splice(at..at, *b"\xed\xa0\x80"),
        _ => _ = line.splice(at..at, "99999999999999999999".bytes()),
    }
}

fn binary(dice: &mut Dice) -> Text {
    let mut data: Vec<u8> = b"PGCOPY\n\xff\r\n\0".to_vec();
    data.extend(0u32.to_be_bytes());
    data.extend(0u32.to_be_bytes());
    for n in 0..dice.random_range(1..10i32) {
        let fields = if chance(dice, 8) { dice.random() } else { COLUMNS as i16 };
        data.extend(fields.to_be_bytes());
        for field in 0..COLUMNS as i32 {
            let value: Vec<u8> = match field {
                0 => (300_000 + n).to_be_bytes().to_vec(),
                1 => b"text".to_vec(),
                // A numeric: digits, weight, sign, scale.
                _ => [1u16, 0, 0, 0, 7].iter().flat_map(|d| d.to_be_bytes()).collect(),
            };
            let length = match dice.random_range(0..20) {
                0 => -1,
                1 => dice.random(),
                2 => value.len() as i32 + dice.random_range(-3..4),
                3 => i32::MAX,
                _ => value.len() as i32,
            };
            data.extend(length.to_be_bytes());
            if length != -1 {
                data.extend(value);
            }
        }
    }
    if chance(dice, 80) {
        data.extend((-1i16).to_be_bytes());
    }
    for _ in 0..dice.random_range(0..4) {
        let at = dice.random_range(0..data.len());
        data[at] = dice.random();
    }
    if chance(dice, 15) {
        data.truncate(dice.random_range(0..data.len()));
    }
    data.into()
}
