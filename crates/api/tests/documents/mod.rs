//! Full documents of every kind, shared by several tests.

use serde_json::Value;

/// Returns nodes, fleets and statuses, in that order.
pub fn all() -> Vec<Value> {
    [include_str!("nodes.yaml"), include_str!("fleets.yaml"), include_str!("statuses.yaml")]
        .into_iter()
        .flat_map(|text| serde_saphyr::from_str::<Vec<Value>>(text).expect("the documents are valid YAML"))
        .collect()
}
