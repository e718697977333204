//! A directory as one small file: what was there before is pointed at.
//!
//! The files one after the other, each as the length of its path, its path, its length and its bytes; a directory that
//! holds nothing is there with a path that ends in `/`. All of that as
//! pieces: how many bytes follow as they are, those, how many bytes to repeat, and how far back they begin. Numbers are
//! varints (seven bits a byte, the lowest first).

use std::collections::BTreeMap;
use std::path::Path;

/// Less is not worth pointing at.
const REPEATED_BYTES_MIN: usize = 8;

/// All files below a directory but those that `is_left_out` names.
pub fn pack(directory: &Path, is_left_out: &dyn Fn(&str) -> bool) -> Vec<u8> {
    let mut paths = Vec::new();
    find(directory, "", &mut paths);
    let mut plain = Vec::new();
    for path in paths.iter().filter(|path| !is_left_out(path)) {
        let is_directory = path.ends_with('/');
        let read = || std::fs::read(directory.join(path)).expect("it was listed");
        let bytes = if is_directory { Vec::new() } else { read() };
        put_count(&mut plain, path.len());
        plain.extend(path.bytes());
        put_count(&mut plain, bytes.len());
        plain.extend(bytes);
    }
    packed(&plain)
}

/// Makes the files again below a directory.
pub fn unpack(packed: &[u8], directory: &Path) {
    let plain = unpacked(packed);
    let mut rest = &plain[..];
    while !rest.is_empty() {
        let count = take_count(&mut rest);
        let path = String::from_utf8(take(&mut rest, count).to_vec()).expect("a path");
        let count = take_count(&mut rest);
        let bytes = take(&mut rest, count);
        if path.ends_with('/') {
            std::fs::create_dir_all(directory.join(path)).expect("room");
            continue;
        }
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().expect("it is in a directory")).expect("room");
        std::fs::write(path, bytes).expect("room");
    }
}

/// Files below `directory`, which is `name` below the root, in the order of their names, and directories without any.
fn find(directory: &Path, name: &str, paths: &mut Vec<String>) {
    let entries = std::fs::read_dir(directory).expect("it is there");
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("it is listed")).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    if entries.is_empty() {
        paths.push(format!("{name}/"));
    }
    for entry in entries {
        let own = entry.file_name().into_string().expect("a plain name");
        let path = if name.is_empty() { own } else { format!("{name}/{own}") };
        if entry.file_type().expect("it is there").is_dir() {
            find(&entry.path(), &path, paths);
        } else {
            paths.push(path);
        }
    }
}

fn packed(plain: &[u8]) -> Vec<u8> {
    let (mut packed, mut known) = (Vec::new(), BTreeMap::new());
    let (mut at, mut unpacked_from) = (0, 0);
    while at + REPEATED_BYTES_MIN <= plain.len() {
        let Some(before) = known.insert(&plain[at..at + REPEATED_BYTES_MIN], at) else {
            at += 1;
            continue;
        };
        let repeats =
            plain[at..].iter().zip(&plain[before..]).take_while(|(one, other)| one == other).count();
        put_piece(&mut packed, &plain[unpacked_from..at], repeats, at - before);
        at += repeats;
        unpacked_from = at;
    }
    put_piece(&mut packed, &plain[unpacked_from..], 0, 0);
    packed
}

fn put_piece(packed: &mut Vec<u8>, plain: &[u8], repeats: usize, back: usize) {
    put_count(packed, plain.len());
    packed.extend(plain);
    put_count(packed, repeats);
    put_count(packed, back);
}

fn unpacked(mut packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !packed.is_empty() {
        let count = take_count(&mut packed);
        plain.extend(take(&mut packed, count));
        let (repeats, back) = (take_count(&mut packed), take_count(&mut packed));
        // It may repeat what it is just writing.
        for _ in 0..repeats {
            plain.push(plain[plain.len() - back]);
        }
    }
    plain
}

fn put_count(packed: &mut Vec<u8>, mut count: usize) {
    while count >= 128 {
        packed.push(count as u8 | 128);
        count >>= 7;
    }
    packed.push(count as u8);
}

fn take_count(packed: &mut &[u8]) -> usize {
    let (mut count, mut shift) = (0, 0);
    loop {
        let byte = take(packed, 1)[0];
        count |= usize::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            return count;
        }
    }
}

fn take<'a>(packed: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = packed.split_at(count);
    *packed = rest;
    taken
}

#[test]
fn what_is_packed_is_unpacked() {
    let scratch = std::env::temp_dir().join(format!("meridian-{}-packed", std::process::id()));
    _ = std::fs::remove_dir_all(&scratch);
    let (from, to) = (scratch.join("from"), scratch.join("to"));
    std::fs::create_dir_all(from.join("a/b")).expect("room");
    std::fs::create_dir_all(from.join("a/empty")).expect("room");
    let long = [vec![7; 300_000], b"some text".to_vec(), vec![0; 8], b"end".to_vec()].concat();
    let files = [("a/b/long", long), ("a/none", Vec::new()), ("one", vec![1]), ("zero", vec![0; 20])];
    files.iter().for_each(|(path, bytes)| std::fs::write(from.join(path), bytes).expect("room"));
    std::fs::write(from.join("lock"), "left out").expect("room");
    let packed = pack(&from, &|path| path == "lock");
    assert!(packed.len() < 120, "{}", packed.len());
    unpack(&packed, &to);
    for (path, bytes) in &files {
        assert_eq!(std::fs::read(to.join(path)).expect("it was packed"), *bytes, "{path}");
    }
    assert!(!to.join("lock").exists());
    assert!(to.join("a/empty").is_dir());
    _ = std::fs::remove_dir_all(&scratch);
}
