//! Values of a genesis document that somebody wants to be others.

use super::document::Genesis;
use crate::json::{Json, JsonError, Object};

/// Why an override cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// The path names no field of a module.
    #[error("override {0:?} must be <module>.<field>, without empty parts")]
    Path(String),
    /// There is no such module.
    #[error("override {path:?}: the genesis file has no module {module:?}")]
    Module {
        /// The path.
        path: String,
        /// The module.
        module: String,
    },
    /// The path goes through something that has no fields.
    #[error("override {path:?}: {part:?} is a value and has no fields")]
    NoFields {
        /// The path.
        path: String,
        /// Where it ends.
        part: String,
    },
    /// The value is none.
    #[error("override {path:?}: the value is {error}")]
    Value {
        /// The path.
        path: String,
        /// Why.
        error: JsonError,
    },
}

impl Genesis {
    /// Puts a value, as JSON, at a path `module.field[.field]`. Objects on the way are made.
    pub(super) fn put_override(&mut self, path: &str, value: &[u8]) -> Result<(), OverrideError> {
        let parts: Vec<&str> = path.split('.').collect();
        let [module, between @ .., last] = parts.as_slice() else {
            return Err(OverrideError::Path(path.into()));
        };
        if parts.iter().any(|part| part.is_empty()) {
            return Err(OverrideError::Path(path.into()));
        }
        let value = Json::parse(value).map_err(|error| OverrideError::Value { path: path.into(), error })?;
        let no_fields = |part: &str| OverrideError::NoFields { path: path.into(), part: part.into() };
        let missing = || OverrideError::Module { path: path.into(), module: (*module).into() };
        let mut place = self.document.at_mut(&["app_state", module]).ok_or_else(missing)?;
        let mut name = *module;
        for part in between {
            let Json::Object(object) = place else { return Err(no_fields(name)) };
            if object.get(part).is_none() {
                object.set(part, Json::Object(Object::default()));
            }
            name = part;
            place = object.get_mut(part).ok_or_else(|| no_fields(part))?;
        }
        let Json::Object(object) = place else { return Err(no_fields(name)) };
        object.set(last, value);
        Ok(())
    }
}
