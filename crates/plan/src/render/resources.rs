//! Resources, in the form in which the API server keeps them: in any other, our own object would look changed for ever.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Refusal;
use crate::quantity::canonical;

/// A quantity.
pub(super) fn quantity(what: &str, text: &str) -> Result<Quantity, Refusal> {
    canonical(text).map(Quantity).ok_or_else(|| Refusal(format!("{what}: {text:?} is no quantity")))
}

/// Named quantities.
pub(super) fn list<'a>(
    what: &str,
    quantities: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<BTreeMap<String, Quantity>, Refusal> {
    let one = |(name, text): (&str, &str)| Ok((name.to_owned(), quantity(&format!("{what}.{name}"), text)?));
    quantities.into_iter().map(one).collect()
}

/// Resources as somebody else wrote them. Nothing for none at all.
pub(super) fn given(
    what: &str,
    resources: ResourceRequirements,
) -> Result<Option<ResourceRequirements>, Refusal> {
    let canonical = |field: &str, quantities: Option<BTreeMap<String, Quantity>>| {
        let Some(quantities) = quantities.filter(|all| !all.is_empty()) else { return Ok(None) };
        let texts = quantities.iter().map(|(name, quantity)| (name.as_str(), quantity.0.as_str()));
        list(&format!("{what}.{field}"), texts).map(Some)
    };
    let resources = ResourceRequirements {
        claims: resources.claims.filter(|claims| !claims.is_empty()),
        limits: canonical("limits", resources.limits)?,
        requests: canonical("requests", resources.requests)?,
    };
    Ok((resources != ResourceRequirements::default()).then_some(resources))
}
