//! CEL validation rules as data: one table per kind, separate from the types.

use serde_json::{Value, json};

/// How the API server reports a violation. Only `Invalid` (and `Duplicate`, unused here) echoes the value, so rules on whole
/// objects use the other two where possible: a manifest echoed into the error hides the message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Violation {
    /// The value is invalid.
    Invalid,
    /// The value, or its absence, is not allowed here.
    Forbidden,
    /// A value is required.
    Required,
}

/// A CEL validation rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    violation: Violation,
    /// Path of the field to report, relative to the object that has the rule. Empty for the object itself.
    field: &'static str,
    /// CEL expression that must be true. With `oldSelf`, it is evaluated only on updates.
    expression: &'static str,
    /// What is wrong, why, and how to fix it.
    message: &'static str,
}

impl Rule {
    pub(crate) const fn invalid(
        field: &'static str,
        expression: &'static str,
        message: &'static str,
    ) -> Self {
        Self { violation: Violation::Invalid, field, expression, message }
    }

    pub(crate) const fn forbidden(
        field: &'static str,
        expression: &'static str,
        message: &'static str,
    ) -> Self {
        Self { violation: Violation::Forbidden, field, expression, message }
    }

    pub(crate) const fn required(
        field: &'static str,
        expression: &'static str,
        message: &'static str,
    ) -> Self {
        Self { violation: Violation::Required, field, expression, message }
    }

    fn to_value(self) -> Value {
        let reason = match self.violation {
            Violation::Invalid => "FieldValueInvalid",
            Violation::Forbidden => "FieldValueForbidden",
            Violation::Required => "FieldValueRequired",
        };
        let mut rule = json!({ "rule": self.expression, "message": self.message, "reason": reason });
        if !self.field.is_empty() {
            rule["fieldPath"] = self.field.into();
        }
        rule
    }
}

/// Returns the value of `x-kubernetes-validations`.
pub(crate) fn validations(rules: &[Rule]) -> Value {
    rules.iter().map(|rule| rule.to_value()).collect()
}
