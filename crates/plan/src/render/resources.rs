//! Resource requirements in the canonical form of the API server. In any other form an applied object would always be
//! out of sync.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::RenderError;
use crate::quantity::canonical;

/// Returns a quantity in canonical form. `field` names it in the error.
fn canonical_quantity(field: &str, text: &str) -> Result<Quantity, RenderError> {
    let quantity = canonical(text).map(Quantity);
    quantity.ok_or_else(|| RenderError(format!("{field}: {text:?} is not a valid quantity")))
}

/// Returns a list of quantities in canonical form, by resource name.
pub(super) fn resource_list<'a>(
    field: &str,
    quantities: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<BTreeMap<String, Quantity>, RenderError> {
    let entry = |(name, text): (&str, &str)| {
        Ok((name.to_owned(), canonical_quantity(&format!("{field}.{name}"), text)?))
    };
    quantities.into_iter().map(entry).collect()
}

/// Returns the resource requirements of a spec in canonical form, or none if they are empty.
pub(super) fn requirements(
    field: &str,
    resources: ResourceRequirements,
) -> Result<Option<ResourceRequirements>, RenderError> {
    let canonical = |part: &str, quantities: Option<BTreeMap<String, Quantity>>| {
        let Some(quantities) = quantities.filter(|all| !all.is_empty()) else { return Ok(None) };
        let texts = quantities.iter().map(|(name, quantity)| (name.as_str(), quantity.0.as_str()));
        resource_list(&format!("{field}.{part}"), texts).map(Some)
    };
    let resources = ResourceRequirements {
        claims: resources.claims.filter(|claims| !claims.is_empty()),
        limits: canonical("limits", resources.limits)?,
        requests: canonical("requests", resources.requests)?,
    };
    Ok((resources != ResourceRequirements::default()).then_some(resources))
}
