//! Full documents of every kind, shared by the tests that read them and those that store them.

use serde_json::Value;

/// Nodes, fleets and statuses, in that order.
pub fn all() -> Vec<Value> {
    [include_str!("nodes.yaml"), include_str!("fleets.yaml"), include_str!("statuses.yaml")]
        .into_iter()
        .flat_map(|text| serde_saphyr::from_str::<Vec<Value>>(text).expect("the documents are YAML"))
        .collect()
}
