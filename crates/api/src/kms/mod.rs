//! Health of KMS plugins: reports of each API server's plugins, in the two forms they are published in, and our own kind
//! for clusters that have no operator resource to publish them on.

mod condition_form;
mod health;
mod text;

pub use condition_form::{
    CONDITION_TYPE_PREFIX, ConditionEntry, MESSAGE_BUDGET, ParseError, PluginStatus, condition_type, message,
    parse,
};
pub use health::{
    ExpectedKey, HealthReport, HealthStatus, KMSHealth, KMSHealthSpec, KMSHealthStatus, KeyRole, MAX_REPORTS,
};
pub use text::{DETAIL_LIMIT, KEY_ID_LIMIT, clean};
