//! Health of KMS plugins: the reports of each API server's plugins in their two published forms, the resources that they are
//! published on, and the `KMSHealth` kind for clusters without operator resources.

mod cause;
pub mod check;
mod condition_form;
mod health;
mod redact;
mod target;
mod text;

pub use cause::{Cause, RpcCode};
pub use condition_form::{
    CONDITION_TYPE_PREFIX, ConditionEntry, MESSAGE_BUDGET, ParseError, condition_type, encode_message,
    parse_message,
};
pub use health::{
    ExpectedKey, HealthReport, KMSHealth, KMSHealthSpec, KMSHealthStatus, KeyRole, MAX_REPORTS, PluginStatus,
    UNKNOWN_KEY_ID,
};
pub use redact::redact;
pub use target::KmsTarget;
pub use text::{DETAIL_LIMIT, KEY_ID_LIMIT, sanitize};
