//! Health of KMS plugins: the reports of each API server's plugins in their two published forms, and the `KMSHealth` kind for
//! clusters without operator resources.

mod cause;
pub mod check;
mod condition_form;
mod health;
mod redact;
mod text;

pub use cause::{Cause, RpcCode};
pub use condition_form::{
    CONDITION_TYPE_PREFIX, ConditionEntry, MESSAGE_BUDGET, ParseError, PluginStatus, condition_type, message,
    parse,
};
pub use health::{
    ExpectedKey, HealthReport, HealthStatus, KMSHealth, KMSHealthSpec, KMSHealthStatus, KeyRole, MAX_REPORTS,
    UNKNOWN_KEY_ID,
};
pub use redact::redact;
pub use text::{DETAIL_LIMIT, KEY_ID_LIMIT, clean};
