//! What EXPLAIN has to say, as lines of text, or as JSON, YAML or XML in PostgreSQL's outer shape.
//!
//! KEEPS: all forms are made from the same facts, so neither says more than the other.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A value as JSON shows it. Fields keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::session) enum Json {
    Text(String),
    Whole(u64),
    Number(f64),
    List(Vec<Json>),
    Fields(Vec<(&'static str, Json)>),
}

impl Json {
    pub fn texts<T: ToString>(all: impl IntoIterator<Item = T>) -> Json {
        Json::List(all.into_iter().map(|one| Json::Text(one.to_string())).collect())
    }
    /// A number with as many digits as the text shows.
    pub fn rounded(value: f64) -> Json {
        Json::Number((value * 1000.0).round() / 1000.0)
    }
}

impl Json {
    /// Lines of the value as YAML, as PostgreSQL lays it out. What is no list and no object has one.
    fn yaml(&self, indent: &str, lines: &mut Vec<String>) {
        match self {
            Json::List(all) => {
                for one in all {
                    let mut inner = Vec::new();
                    one.yaml("", &mut inner);
                    let marks = std::iter::once("- ").chain(std::iter::repeat("  "));
                    lines.extend(marks.zip(inner).map(|(mark, line)| format!("{indent}{mark}{line}")));
                }
            }
            Json::Fields(fields) => {
                for (name, value) in fields {
                    let mut inner = Vec::new();
                    value.yaml("", &mut inner);
                    match value {
                        Json::List(_) | Json::Fields(_) => {
                            lines.push(format!("{indent}{name}: "));
                            lines.extend(inner.into_iter().map(|line| format!("{indent}  {line}")));
                        }
                        _ => lines.extend(inner.into_iter().map(|line| format!("{indent}{name}: {line}"))),
                    }
                }
            }
            // A text is quoted as JSON quotes it.
            plain => lines.push(serde_json::to_string(plain).expect("a text or a number")),
        }
    }
}

impl Json {
    /// Lines of the value as an XML element.
    fn xml(&self, name: &str, indent: &str, lines: &mut Vec<String>) {
        let tag = xml_name(name);
        let inner = format!("{indent}  ");
        match self {
            Json::List(_) | Json::Fields(_) => {
                lines.push(format!("{indent}<{tag}>"));
                match self {
                    Json::List(all) => {
                        let item = if name == "Plans" { "Plan" } else { "Item" };
                        all.iter().for_each(|one| one.xml(item, &inner, lines));
                    }
                    Json::Fields(fields) => {
                        fields.iter().for_each(|(name, value)| value.xml(name, &inner, lines));
                    }
                    _ => {}
                }
                lines.push(format!("{indent}</{tag}>"));
            }
            Json::Text(text) => lines.push(format!("{indent}<{tag}>{}</{tag}>", escaped(text))),
            Json::Whole(number) => lines.push(format!("{indent}<{tag}>{number}</{tag}>")),
            Json::Number(number) => lines.push(format!("{indent}<{tag}>{number}</{tag}>")),
        }
    }
}

/// A name as that of an element: what cannot stand in one becomes a dash.
fn xml_name(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '.' { c } else { '-' };
    name.chars().map(kept).collect()
}

/// A text as XML has it. Control characters that it cannot have are left out.
fn escaped(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => made.push_str("&amp;"),
            '<' => made.push_str("&lt;"),
            '>' => made.push_str("&gt;"),
            '\r' => made.push_str("&#x0d;"),
            c if c.is_control() && c != '\n' && c != '\t' => {}
            c => made.push(c),
        }
    }
    made
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.into())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Text(text) => to.serialize_str(text),
            Json::Whole(number) => to.serialize_u64(*number),
            Json::Number(number) => to.serialize_f64(*number),
            Json::List(all) => to.collect_seq(all),
            Json::Fields(fields) => {
                let mut map = to.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

/// One fact: lines for people, a field for programs.
struct Fact {
    lines: Vec<String>,
    name: &'static str,
    value: Json,
}

/// What EXPLAIN says of one statement.
#[derive(Default)]
pub(in crate::session) struct Document {
    title: String,
    plan: Vec<Fact>,
    /// Operators over columns, one a line, indented by their depth.
    operators: Vec<String>,
    /// What was measured while it ran.
    measured: Vec<Fact>,
}

impl Document {
    pub fn titled(title: impl Into<String>) -> Document {
        Document { title: title.into(), ..Document::default() }
    }
    pub fn title(&self) -> &str {
        &self.title
    }
    pub fn plan(&mut self, line: String, name: &'static str, value: impl Into<Json>) {
        self.plan.push(Fact { lines: vec![line], name, value: value.into() });
    }
    pub fn plan_lines(&mut self, lines: Vec<String>, name: &'static str, value: Json) {
        self.plan.push(Fact { lines, name, value });
    }
    pub fn operators(&mut self, text: &str) {
        self.operators = text.lines().map(str::to_string).collect();
    }
    pub fn measured(&mut self, line: String, name: &'static str, value: impl Into<Json>) {
        self.measured.push(Fact { lines: vec![line], name, value: value.into() });
    }
    pub fn measured_lines(&mut self, lines: Vec<String>, name: &'static str, value: Json) {
        self.measured.push(Fact { lines, name, value });
    }

    pub fn text(self) -> Vec<String> {
        let mut lines = vec![self.title];
        lines.extend(self.plan.into_iter().flat_map(|fact| fact.lines).map(|line| format!("  {line}")));
        lines.extend(self.operators.into_iter().map(|line| format!("  {line}")));
        lines.extend(self.measured.into_iter().flat_map(|fact| fact.lines));
        lines
    }

    /// An array of one object.
    pub fn json(self) -> String {
        serde_json::to_string_pretty(&[self.whole()]).expect("texts, numbers and lists of them")
    }

    /// The same as YAML: `- Plan:` and what follows.
    pub fn yaml(self) -> String {
        let mut lines = Vec::new();
        Json::List(vec![self.whole()]).yaml("", &mut lines);
        lines.join("\n")
    }

    /// The same as XML, in PostgreSQL's namespace.
    pub fn xml(self) -> String {
        let mut lines = vec!["<explain xmlns=\"http://www.postgresql.org/2009/explain\">".to_string()];
        self.whole().xml("Query", "  ", &mut lines);
        lines.push("</explain>".into());
        lines.join("\n")
    }

    /// An object whose `Plan` has nested `Plans`, and what was measured beside it.
    fn whole(self) -> Json {
        let mut plan = vec![("Node Type", Json::Text(self.title))];
        plan.extend(self.plan.into_iter().map(|fact| (fact.name, fact.value)));
        let operators = tree(&self.operators);
        if !operators.is_empty() {
            plan.push(("Plans", Json::List(operators)));
        }
        let mut whole = vec![("Plan", Json::Fields(plan))];
        whole.extend(self.measured.into_iter().map(|fact| (fact.name, fact.value)));
        Json::Fields(whole)
    }
}

/// Operators as nested objects.
pub(super) fn tree(lines: &[String]) -> Vec<Json> {
    let depth = |line: &String| line.len() - line.trim_start().len();
    let Some(top) = lines.first().map(depth) else { return Vec::new() };
    let mut nodes = Vec::new();
    let mut rest = lines;
    while let Some((first, below)) = rest.split_first() {
        let children = below.iter().take_while(|line| depth(line) > top).count();
        let (name, details) = first.trim().split_once(": ").unwrap_or((first.trim(), ""));
        let mut node = vec![("Node Type", Json::from(name))];
        if !details.is_empty() {
            node.push(("Details", Json::from(details)));
        }
        let inner = tree(&below[..children]);
        if !inner.is_empty() {
            node.push(("Plans", Json::List(inner)));
        }
        nodes.push(Json::Fields(node));
        rest = &below[children..];
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_say_the_same_and_operators_nest() {
        let document = || {
            let mut document = Document::titled("Query over columns");
            document.plan("WAN round trips: 0.5".into(), "WAN Round Trips", Json::Number(0.5));
            document.operators("Join: on=[(a, b)]\n  Scan: table=\"a\"\n  Scan: table=b\n    Empty");
            document.measured("Rows: 3".into(), "Actual Rows", Json::Whole(3));
            document
        };
        let text = document().text();
        assert_eq!(text[..3], ["Query over columns", "  WAN round trips: 0.5", "  Join: on=[(a, b)]"]);
        assert_eq!(text.last().unwrap(), "Rows: 3");
        let parsed: serde_json::Value = serde_json::from_str(&document().json()).unwrap();
        let plan = &parsed[0]["Plan"];
        assert_eq!(
            (&plan["Node Type"], &plan["WAN Round Trips"]),
            (&"Query over columns".into(), &0.5.into())
        );
        assert_eq!(plan["Plans"][0]["Plans"][0]["Details"], "table=\"a\"");
        assert_eq!(plan["Plans"][0]["Plans"][1]["Plans"][0]["Node Type"], "Empty");
        assert_eq!(parsed[0]["Actual Rows"], 3);
        let yaml = "- Plan: \n    Node Type: \"Query over columns\"\n    WAN Round Trips: 0.5\n    Plans: \n      \
                    - Node Type: \"Join\"\n        Details: \"on=[(a, b)]\"\n        Plans: \n";
        let whole = document().yaml();
        assert!(whole.starts_with(yaml), "{whole}");
        assert!(whole.ends_with("\n  Actual Rows: 3"), "{whole}");
        let xml = "<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n  <Query>\n    <Plan>\n      \
                   <Node-Type>Query over columns</Node-Type>\n      <WAN-Round-Trips>0.5</WAN-Round-Trips>\n      \
                   <Plans>\n        <Plan>\n          <Node-Type>Join</Node-Type>\n          \
                   <Details>on=[(a, b)]</Details>\n";
        let whole = document().xml();
        assert!(whole.starts_with(xml), "{whole}");
        let end = "    </Plan>\n    <Actual-Rows>3</Actual-Rows>\n  </Query>\n</explain>";
        assert!(whole.ends_with(end), "{whole}");
        let mut lines = Vec::new();
        Json::texts(["a < b & c"]).xml("Some Lines", "", &mut lines);
        assert_eq!(lines, ["<Some-Lines>", "  <Item>a &lt; b &amp; c</Item>", "</Some-Lines>"]);
    }
}
