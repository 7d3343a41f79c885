//! JSON as Go writes it.

use super::{Json, Object};

/// Writes a value; with a depth, each on its line.
pub(super) fn write(value: &Json, depth: Option<usize>, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Json::Number(number) => out.push_str(number),
        Json::Text(text) => quote(text, out),
        Json::Array(values) => {
            let one = |value: &Json, depth, out: &mut String| write(value, depth, out);
            enclosed(('[', ']'), values, depth, out, one);
        }
        Json::Object(Object(members)) => {
            enclosed(('{', '}'), members, depth, out, |(name, value), depth, out| {
                quote(name, out);
                out.push_str(if depth.is_some() { ": " } else { ":" });
                write(value, depth, out);
            });
        }
    }
}

fn enclosed<T>(
    (open, close): (char, char),
    all: &[T],
    depth: Option<usize>,
    out: &mut String,
    one: impl Fn(&T, Option<usize>, &mut String),
) {
    let line = |depth: Option<usize>, out: &mut String| {
        if let Some(depth) = depth {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth));
        }
    };
    let inner = depth.map(|depth| depth + 1);
    out.push(open);
    for (place, value) in all.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        line(inner, out);
        one(value, inner, out);
    }
    if !all.is_empty() {
        line(depth, out);
    }
    out.push(close);
}

/// A text with the escapes that Go uses: what could be taken for markup is escaped too.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
