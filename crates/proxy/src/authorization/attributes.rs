//! What a request wants to do, in the terms of Kubernetes.

use std::borrow::Cow;

use http::{HeaderMap, Method};
use serde_json::json;

use crate::cache::{Digest, Secret};
use crate::config::{Question, ResourceTemplate};
use crate::request::{query, verb};

/// Attributes of at least so many bytes are not remembered: who sends them would fill the cache with them.
const LARGEST_CACHED: usize = 10_000;

/// One thing that must be allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Attributes<'a> {
    /// To use a path.
    Path { verb: &'static str, path: Cow<'a, str> },
    /// To use a resource.
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
    fn of_template(template: &ResourceTemplate, verb: &'static str, value: &str) -> Attributes<'static> {
        Attributes::Resource {
            verb,
            namespace: template.namespace.with(value).into(),
            group: template.group.with(value).into(),
            version: template.version.with(value).into(),
            resource: template.resource.with(value).into(),
            subresource: template.subresource.with(value).into(),
            name: template.name.with(value).into(),
        }
    }

    /// The rest of a review's `spec`, as JSON with its closing brace.
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

    /// The digest of all of them.
    pub(crate) fn digest(&self, secret: &Secret) -> Digest {
        match self {
            Self::Path { verb, path } => secret.digest(&[b"path", verb.as_bytes(), path.as_bytes()]),
            Self::Resource { verb, namespace, group, version, resource, subresource, name } => {
                secret.digest(&[
                    b"resource",
                    verb.as_bytes(),
                    namespace.as_bytes(),
                    group.as_bytes(),
                    version.as_bytes(),
                    resource.as_bytes(),
                    subresource.as_bytes(),
                    name.as_bytes(),
                ])
            }
        }
    }

    /// Whether a decision about them is remembered.
    pub(crate) fn is_cached(&self) -> bool {
        let size: usize = match self {
            Self::Path { path, .. } => path.len(),
            Self::Resource { namespace, group, version, resource, subresource, name, .. } => {
                [namespace, group, version, resource, subresource, name].iter().map(|field| field.len()).sum()
            }
        };
        size + self.verb().len() < LARGEST_CACHED
    }

    /// The verb.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Path { verb, .. } | Self::Resource { verb, .. } => verb,
        }
    }

    /// The resource and the subresource; both empty for a path.
    pub(crate) fn resource(&self) -> (&str, &str) {
        match self {
            Self::Path { .. } => ("", ""),
            Self::Resource { resource, subresource, .. } => (resource, subresource),
        }
    }
}

/// Why a request has no attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A rewrite has no value.
    Value,
    /// The query could be read in two ways (W5).
    Query,
}

/// All verbs there are, as methods have them.
const VERBS: [&str; 6] = ["get", "create", "update", "patch", "delete", "*"];

/// Attributes with their digest.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) attributes: Attributes<'a>,
    pub(crate) digest: Digest,
}

/// How attributes are made of requests, prepared as far as it can be.
#[derive(Debug)]
pub(crate) enum Asking {
    /// By path.
    Path,
    /// The same for all requests with one verb.
    Fixed(Vec<Asked<'static>>),
    /// By values in the request.
    Rewritten(ResourceTemplate, crate::config::Rewrites),
}

/// What one request asks for: nearly always one thing, and that is not put on the heap.
#[derive(Debug)]
pub(crate) enum AllAsked<'a> {
    /// One that is prepared.
    Fixed(&'a Asked<'static>),
    /// One.
    One(Asked<'a>),
    /// One for each value.
    Many(Vec<Asked<'static>>),
}

impl Asking {
    /// Prepares a question.
    pub(crate) fn new(question: &Question, secret: &Secret) -> Self {
        match question {
            Question::Path => Self::Path,
            Question::Resource(template) => Self::Fixed(
                VERBS.iter().map(|verb| asked(Attributes::of_template(template, verb, ""), secret)).collect(),
            ),
            Question::Rewritten(template, rewrites) => Self::Rewritten(template.clone(), rewrites.clone()),
        }
    }

    /// What a request asks for. Values of the query come first, then those of the header, each line one.
    pub(crate) fn of<'a>(
        &'a self,
        method: &Method,
        path: &'a str,
        query: Option<&str>,
        headers: &HeaderMap,
        secret: &Secret,
    ) -> Result<AllAsked<'a>, Missing> {
        let verb = verb::of(method);
        match self {
            Self::Path => Ok(AllAsked::One(asked(Attributes::Path { verb, path: path.into() }, secret))),
            Self::Fixed(all) => all
                .iter()
                .find(|one| one.attributes.verb() == verb)
                .map(AllAsked::Fixed)
                .ok_or(Missing::Value),
            Self::Rewritten(template, rewrites) => {
                let mut values = match &rewrites.query_parameter {
                    Some(name) => query::values(query.unwrap_or_default(), name)
                        .map_err(|query::Unreadable| Missing::Query)?,
                    None => Vec::new(),
                };
                if let Some(name) = &rewrites.header {
                    for line in headers.get_all(name) {
                        values.push(line.to_str().map_err(|_| Missing::Query)?.to_owned());
                    }
                }
                if values.is_empty() {
                    return Err(Missing::Value);
                }
                let one = |value: &String| asked(Attributes::of_template(template, verb, value), secret);
                Ok(AllAsked::Many(values.iter().map(one).collect()))
            }
        }
    }
}

fn asked<'a>(attributes: Attributes<'a>, secret: &Secret) -> Asked<'a> {
    Asked { digest: attributes.digest(secret), attributes }
}

impl AllAsked<'_> {
    /// Each, in its order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Asked<'_>> {
        match self {
            Self::Fixed(one) => std::slice::from_ref(*one).iter(),
            Self::One(one) => std::slice::from_ref(one).iter(),
            Self::Many(all) => all.iter(),
        }
    }
}
