//! Links between documents: the file is there, and so is the heading.

use super::{Files, Finding, error};

pub fn check(path: &str, content: &str, files: &Files, out: &mut Vec<Finding>) {
    for (line, target) in targets(content) {
        let outside = ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme));
        if outside {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { Some(path.to_string()) } else { resolve(path, file) };
        let Some(file) = file else {
            out.push(error(path, line, format!("link `{target}` leaves the repository")));
            continue;
        };
        let folder = format!("{}/", file.trim_end_matches('/'));
        match files.get(&file) {
            Some(text) if !anchor.is_empty() && !headings(text).any(|h| h == anchor) => {
                out.push(error(path, line, format!("link `{target}`: no such heading")));
            }
            Some(_) => {}
            None if files.keys().any(|f| f.starts_with(&folder)) => {}
            None => out.push(error(path, line, format!("link `{target}` points nowhere"))),
        }
    }
}

/// Every `](target)` outside code, with its line.
fn targets(content: &str) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    for (line, text) in outside_fences(content) {
        let mut rest = text;
        while let Some(at) = rest.find("](") {
            let in_code = rest[..at].matches('`').count() % 2 == 1;
            let after = &rest[at + 2..];
            let Some(end) = after.find(')') else { break };
            if !in_code {
                // A title may follow the target.
                out.push((line, after[..end].split(' ').next().unwrap_or_default()));
            }
            rest = &after[end..];
        }
    }
    out
}

/// Lines outside ``` fences, numbered from 1.
fn outside_fences(content: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    content.lines().enumerate().filter_map(move |(i, text)| {
        let fence = text.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((i + 1, text))
    })
}

/// `target` seen from the document at `path`; none if it climbs out of the repository.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Headings as the anchors that GitHub makes of them.
fn headings(content: &str) -> impl Iterator<Item = String> {
    outside_fences(content).filter(|(_, text)| text.starts_with('#')).map(|(_, text)| {
        let title = text.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(content: &str) -> Vec<String> {
        let files = Files::from([
            ("README.md".to_string(), "# Meridian\n".to_string()),
            ("docs/a.md".to_string(), "## The wide area\n".to_string()),
            ("docs/papers/p.txt".to_string(), String::new()),
        ]);
        let mut out = Vec::new();
        check("docs/b.md", content, &files, &mut out);
        out.into_iter().map(|f| f.what).collect()
    }

    #[test]
    fn good_links_pass() {
        let none: [&str; 0] = [];
        assert_eq!(
            broken(
                "[a](a.md) [b](../README.md#meridian) [c](papers) [d](https://x.y) [e](a.md#the-wide-area)"
            ),
            none
        );
        assert_eq!(broken("`[code](nowhere)`\n```\n[a](nowhere.md)\n```\n"), none);
    }

    #[test]
    fn bad_links_are_named() {
        assert_eq!(broken("[a](nowhere.md)"), ["link `nowhere.md` points nowhere"]);
        assert_eq!(broken("[a](a.md#gone)"), ["link `a.md#gone`: no such heading"]);
        assert_eq!(broken("[a](../../other/x.md)"), ["link `../../other/x.md` leaves the repository"]);
    }
}
