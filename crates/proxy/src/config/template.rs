//! Templates: text with the value of a rewrite.

/// Literal text, split where the value is inserted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<String>,
}

impl Template {
    /// Creates a template without placeholders.
    pub(crate) fn literal(text: &str) -> Self {
        Self { pieces: vec![text.to_owned()] }
    }

    /// Parses text with any number of `{{ .Value }}` placeholders; no other expression is supported.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (inner, after) = after.split_once("}}")?;
            if inner.trim() != ".Value" {
                return None;
            }
            pieces.push(before.to_owned());
            rest = after;
        }
        pieces.push(rest.to_owned());
        Some(Self { pieces })
    }

    /// Returns the text with the value inserted.
    pub(crate) fn render(&self, value: &str) -> String {
        self.pieces.join(value)
    }
}
