//! Text with the value of a rewrite in it.

/// Literal text, cut where the value stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<String>,
}

impl Template {
    /// Text as it is.
    pub(crate) fn text(text: &str) -> Self {
        Self { pieces: vec![text.to_owned()] }
    }

    /// Text with `{{ .Value }}` in it, any number of times; nothing else may stand in such braces.
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

    /// The text with a value in it.
    pub(crate) fn with(&self, value: &str) -> String {
        self.pieces.join(value)
    }
}
