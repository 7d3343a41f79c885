//! Overrides of genesis values.

use super::document::Genesis;
use crate::json::{Json, JsonError, Object};

/// Error returned for an invalid override.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// Malformed path.
    #[error("invalid override path {0:?}: expected <module>.<field> without empty segments")]
    Path(String),
    /// Unknown module.
    #[error("override {path:?}: the genesis file has no module {module:?}")]
    Module {
        /// Path.
        path: String,
        /// Module.
        module: String,
    },
    /// The path traverses a value that is not an object.
    #[error("override {path:?}: {part:?} is not an object")]
    NotAnObject {
        /// Path.
        path: String,
        /// Segment that is not an object.
        part: String,
    },
    /// Malformed value.
    #[error("override {path:?}: invalid value: {error}")]
    Value {
        /// Path.
        path: String,
        /// Reason.
        error: JsonError,
    },
}

impl Genesis {
    /// Sets a JSON value at the path `module.field[.field]` and creates missing objects along the path.
    pub(super) fn apply_override(&mut self, path: &str, value: &[u8]) -> Result<(), OverrideError> {
        let parts: Vec<&str> = path.split('.').collect();
        let [module, between @ .., last] = parts.as_slice() else {
            return Err(OverrideError::Path(path.into()));
        };
        if parts.iter().any(|part| part.is_empty()) {
            return Err(OverrideError::Path(path.into()));
        }
        let value = Json::parse(value).map_err(|error| OverrideError::Value { path: path.into(), error })?;
        let not_an_object = |part: &str| OverrideError::NotAnObject { path: path.into(), part: part.into() };
        let missing = || OverrideError::Module { path: path.into(), module: (*module).into() };
        let mut target = self.document.at_mut(&["app_state", module]).ok_or_else(missing)?;
        let mut name = *module;
        for part in between {
            let Json::Object(object) = target else { return Err(not_an_object(name)) };
            if object.get(part).is_none() {
                object.set(part, Json::Object(Object::default()));
            }
            name = part;
            target = object.get_mut(part).ok_or_else(|| not_an_object(part))?;
        }
        let Json::Object(object) = target else { return Err(not_an_object(name)) };
        object.set(last, value);
        Ok(())
    }
}
