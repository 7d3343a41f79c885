//! JSON serialization that matches Go's `encoding/json` byte for byte.

use super::{Json, Object};

/// Writes a value; with a depth, one element per line.
pub(super) fn write(value: &Json, depth: Option<usize>, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Json::Number(number) => out.push_str(number),
        Json::Text(text) => quote(text, out),
        Json::Array(values) => {
            let write_element = |value: &Json, depth, out: &mut String| write(value, depth, out);
            write_delimited(('[', ']'), values, depth, out, write_element);
        }
        Json::Object(Object(members)) => {
            write_delimited(('{', '}'), members, depth, out, |(name, value), depth, out| {
                quote(name, out);
                out.push_str(if depth.is_some() { ": " } else { ":" });
                write(value, depth, out);
            });
        }
    }
}

fn write_delimited<T>(
    (open, close): (char, char),
    elements: &[T],
    depth: Option<usize>,
    out: &mut String,
    write_element: impl Fn(&T, Option<usize>, &mut String),
) {
    let break_line = |depth: Option<usize>, out: &mut String| {
        if let Some(depth) = depth {
            out.push('\n');
            out.extend(std::iter::repeat_n("  ", depth));
        }
    };
    let inner = depth.map(|depth| depth + 1);
    out.push(open);
    for (index, value) in elements.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        break_line(inner, out);
        write_element(value, inner, out);
    }
    if !elements.is_empty() {
        break_line(depth, out);
    }
    out.push(close);
}

/// Writes a string with Go's escapes, which include HTML characters.
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
