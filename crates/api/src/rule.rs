//! Rules that the API server evaluates (CEL), as data: one table per kind, apart from the types they guard.

use serde_json::{Value, json};

/// What a user is told a rule's violation is. Only `Invalid` and `Duplicate` repeat the offending value, so rules on whole
/// objects use the other two: a manifest echoed into an error message hides the sentence that explains it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Violation {
    /// The value is malformed.
    Invalid,
    /// The value, or its absence, is not allowed here.
    Forbidden,
    /// Something must be given.
    Required,
}

/// One rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    violation: Violation,
    /// The field that the message is about, below the object that carries the rule; empty for that object itself.
    field: &'static str,
    /// CEL. A rule that names `oldSelf` is evaluated on updates only.
    must_hold: &'static str,
    /// What is wrong, why, and what to do.
    message: &'static str,
}

impl Rule {
    pub(crate) const fn invalid(field: &'static str, must_hold: &'static str, message: &'static str) -> Self {
        Self { violation: Violation::Invalid, field, must_hold, message }
    }

    pub(crate) const fn forbidden(
        field: &'static str,
        must_hold: &'static str,
        message: &'static str,
    ) -> Self {
        Self { violation: Violation::Forbidden, field, must_hold, message }
    }

    pub(crate) const fn required(
        field: &'static str,
        must_hold: &'static str,
        message: &'static str,
    ) -> Self {
        Self { violation: Violation::Required, field, must_hold, message }
    }

    fn to_value(self) -> Value {
        let reason = match self.violation {
            Violation::Invalid => "FieldValueInvalid",
            Violation::Forbidden => "FieldValueForbidden",
            Violation::Required => "FieldValueRequired",
        };
        let mut rule = json!({ "rule": self.must_hold, "message": self.message, "reason": reason });
        if !self.field.is_empty() {
            rule["fieldPath"] = self.field.into();
        }
        rule
    }
}

/// A table of rules as the value of `x-kubernetes-validations`.
pub(crate) fn validations(rules: &[Rule]) -> Value {
    rules.iter().map(|rule| rule.to_value()).collect()
}
