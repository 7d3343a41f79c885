//! SubjectAccessReview attributes of requests.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, Method};
use serde_json::json;

use crate::cache::{Digest, HmacKey};
use crate::config::{AuthorizationMode, ResourceTemplate};
use crate::request::{query, subresource, verb};

/// Decisions about attributes of this size are not cached: a client could fill the cache with them.
const MAX_CACHED_BYTES: usize = 10_000;

/// The attributes of one access check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes<'a> {
    /// Non-resource attributes.
    Path { verb: &'static str, path: Cow<'a, str> },
    /// Resource attributes.
    Resource {
        verb: &'static str,
        namespace: Cow<'a, str>,
        group: Cow<'a, str>,
        version: Cow<'a, str>,
        resource: Cow<'a, str>,
        subresource: Cow<'a, str>,
        name: Cow<'a, str>,
    },
}

impl Attributes<'_> {
    fn from_template(template: &ResourceTemplate, verb: &'static str, value: &str) -> Attributes<'static> {
        Attributes::Resource {
            verb,
            namespace: template.namespace.render(value).into(),
            group: template.group.render(value).into(),
            version: template.version.render(value).into(),
            resource: template.resource.render(value).into(),
            subresource: template.subresource.render(value).into(),
            name: template.name.render(value).into(),
        }
    }

    /// Replaces the subresource; a path has none.
    fn with_subresource(mut self, value: String) -> Self {
        if let Self::Resource { subresource, .. } = &mut self {
            *subresource = value.into();
        }
        self
    }

    /// Returns the attributes part of a SubjectAccessReview `spec`: JSON with the closing brace.
    pub(crate) fn spec(&self) -> String {
        let (key, value) = match self {
            Self::Path { verb, path } => ("nonResourceAttributes", json!({ "path": path, "verb": verb })),
            Self::Resource { verb, namespace, group, version, resource, subresource, name } => {
                let fields = [
                    ("namespace", namespace),
                    ("group", group),
                    ("version", version),
                    ("resource", resource),
                    ("subresource", subresource),
                    ("name", name),
                ];
                let mut object: serde_json::Map<String, serde_json::Value> = fields
                    .into_iter()
                    .filter(|(_, value)| !value.is_empty())
                    .map(|(key, value)| (key.to_owned(), json!(value)))
                    .collect();
                object.insert("verb".into(), json!(verb));
                ("resourceAttributes", object.into())
            }
        };
        format!(",\"{key}\":{value}}}")
    }

    /// Hashes all attributes.
    pub(crate) fn digest(&self, hmac_key: &HmacKey) -> Digest {
        match self {
            Self::Path { verb, path } => hmac_key.digest(&[b"path", verb.as_bytes(), path.as_bytes()]),
            Self::Resource { verb, namespace, group, version, resource, subresource, name } => hmac_key
                .digest(&[
                    b"resource",
                    verb.as_bytes(),
                    namespace.as_bytes(),
                    group.as_bytes(),
                    version.as_bytes(),
                    resource.as_bytes(),
                    subresource.as_bytes(),
                    name.as_bytes(),
                ]),
        }
    }

    /// Returns whether a decision about these attributes is cached.
    pub(crate) fn is_cacheable(&self) -> bool {
        let size: usize = match self {
            Self::Path { path, .. } => path.len(),
            Self::Resource { namespace, group, version, resource, subresource, name, .. } => {
                [namespace, group, version, resource, subresource, name].iter().map(|field| field.len()).sum()
            }
        };
        size + self.verb().len() < MAX_CACHED_BYTES
    }

    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Path { verb, .. } | Self::Resource { verb, .. } => verb,
        }
    }

    /// Returns resource and subresource; both are empty for a path.
    pub(crate) fn resource(&self) -> (&str, &str) {
        match self {
            Self::Path { .. } => ("", ""),
            Self::Resource { resource, subresource, .. } => (resource, subresource),
        }
    }
}

/// Why the attributes of a request cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttributesError {
    /// The request has no value for a rewrite.
    MissingValue,
    /// The query has more than one interpretation.
    AmbiguousQuery,
    /// The header that names the subresource is repeated, malformed, or would not be forwarded.
    BadSubresourceHeader,
}

/// All verbs that methods map to.
const VERBS: [&str; 6] = ["get", "create", "update", "patch", "delete", "*"];

/// Attributes and their digest.
#[derive(Clone, Debug)]
pub(crate) struct AccessCheck<'a> {
    pub(crate) attributes: Attributes<'a>,
    pub(crate) digest: Digest,
}

/// Builds attributes of requests, precomputed as far as possible.
#[derive(Debug)]
pub(crate) enum AttributesBuilder {
    /// By path.
    Path,
    /// The same for all requests with the same verb.
    Fixed(Vec<AccessCheck<'static>>),
    /// As [`Fixed`](Self::Fixed), except for POST requests with a header that names the subresource.
    SubresourceFromHeader(Vec<AccessCheck<'static>>, HeaderName),
    /// By values in the request.
    Rewritten(ResourceTemplate, crate::config::Rewrites),
}

/// The access checks of one request: almost always one, which needs no allocation.
#[derive(Debug)]
pub(crate) enum AccessChecks<'a> {
    /// A precomputed check.
    Fixed(&'a AccessCheck<'static>),
    /// One check.
    One(AccessCheck<'a>),
    /// One check per value.
    Many(Vec<AccessCheck<'static>>),
}

impl AttributesBuilder {
    /// Precomputes the attributes of a mode.
    pub(crate) fn new(mode: &AuthorizationMode, hmac_key: &HmacKey) -> Self {
        match mode {
            AuthorizationMode::Path => Self::Path,
            AuthorizationMode::Resource(template) => Self::Fixed(fixed_checks(template, hmac_key)),
            AuthorizationMode::SubresourceFromHeader(template, name) => {
                Self::SubresourceFromHeader(fixed_checks(template, hmac_key), name.clone())
            }
            AuthorizationMode::Rewritten(template, rewrites) => {
                Self::Rewritten(template.clone(), rewrites.clone())
            }
        }
    }

    /// Returns the access checks of a request. Query values come first, then header values, each header line
    /// being one.
    pub(crate) fn checks_for<'a>(
        &'a self,
        method: &Method,
        path: &'a str,
        query: Option<&str>,
        headers: &HeaderMap,
        hmac_key: &HmacKey,
    ) -> Result<AccessChecks<'a>, AttributesError> {
        let verb = verb::for_method(method);
        match self {
            Self::Path => {
                Ok(AccessChecks::One(access_check(Attributes::Path { verb, path: path.into() }, hmac_key)))
            }
            Self::Fixed(all) => fixed_check(all, verb).map(AccessChecks::Fixed),
            Self::SubresourceFromHeader(all, name) => {
                let fixed = fixed_check(all, verb)?;
                // On other methods the header has no effect here, and the upstream decides about it.
                let requested = match *method {
                    Method::POST => subresource::requested(headers, name)
                        .map_err(|subresource::BadHeader| AttributesError::BadSubresourceHeader)?,
                    _ => None,
                };
                Ok(match requested {
                    None => AccessChecks::Fixed(fixed),
                    Some(value) => AccessChecks::One(access_check(
                        fixed.attributes.clone().with_subresource(value.to_owned()),
                        hmac_key,
                    )),
                })
            }
            Self::Rewritten(template, rewrites) => {
                let mut values = match &rewrites.query_parameter {
                    Some(name) => query::values(query.unwrap_or_default(), name)
                        .map_err(|query::AmbiguousQuery| AttributesError::AmbiguousQuery)?,
                    None => Vec::new(),
                };
                if let Some(name) = &rewrites.header {
                    for line in headers.get_all(name) {
                        values.push(line.to_str().map_err(|_| AttributesError::AmbiguousQuery)?.to_owned());
                    }
                }
                if values.is_empty() {
                    return Err(AttributesError::MissingValue);
                }
                let one =
                    |value: &String| access_check(Attributes::from_template(template, verb, value), hmac_key);
                Ok(AccessChecks::Many(values.iter().map(one).collect()))
            }
        }
    }
}

/// Precomputes the checks of all verbs.
fn fixed_checks(template: &ResourceTemplate, hmac_key: &HmacKey) -> Vec<AccessCheck<'static>> {
    let check = |verb| access_check(Attributes::from_template(template, verb, ""), hmac_key);
    VERBS.into_iter().map(check).collect()
}

fn fixed_check<'a>(
    all: &'a [AccessCheck<'static>],
    verb: &str,
) -> Result<&'a AccessCheck<'static>, AttributesError> {
    all.iter().find(|one| one.attributes.verb() == verb).ok_or(AttributesError::MissingValue)
}

fn access_check<'a>(attributes: Attributes<'a>, hmac_key: &HmacKey) -> AccessCheck<'a> {
    AccessCheck { digest: attributes.digest(hmac_key), attributes }
}

impl AccessChecks<'_> {
    /// Iterates over the checks in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &AccessCheck<'_>> {
        match self {
            Self::Fixed(one) => std::slice::from_ref(*one).iter(),
            Self::One(one) => std::slice::from_ref(one).iter(),
            Self::Many(all) => all.iter(),
        }
    }
}
