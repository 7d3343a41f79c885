//! The authorization configuration (`--config-file`), read at startup.

mod file;
mod object;
mod rules;
mod template;

use std::path::Path;

use http::HeaderName;

use crate::request::subresource;

use self::file::RawResourceAttributes;
pub(crate) use self::rules::{InvalidRule, Rule};
pub(crate) use self::template::Template;

/// Resource attributes, each a template for the value of a rewrite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceTemplate {
    pub(crate) namespace: Template,
    pub(crate) group: Template,
    pub(crate) version: Template,
    pub(crate) resource: Template,
    pub(crate) subresource: Template,
    pub(crate) name: Template,
}

/// Where the values of a rewrite come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rewrites {
    pub(crate) query_parameter: Option<String>,
    pub(crate) header: Option<HeaderName>,
}

/// How requests map to SubjectAccessReview attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum AuthorizationMode {
    /// By path (non-resource attributes).
    #[default]
    Path,
    /// One fixed resource for all requests.
    Resource(ResourceTemplate),
    /// One fixed resource, of which a POST request names the subresource in a header.
    SubresourceFromHeader(ResourceTemplate, HeaderName),
    /// One resource for each value in the request.
    Rewritten(ResourceTemplate, Rewrites),
}

impl AuthorizationMode {
    /// Returns the header that names the subresource, if one is configured.
    pub(crate) fn subresource_header(&self) -> Option<&HeaderName> {
        match self {
            Self::SubresourceFromHeader(_, name) => Some(name),
            Self::Path | Self::Resource(_) | Self::Rewritten(..) => None,
        }
    }
}

/// The validated configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) mode: AuthorizationMode,
    pub(crate) rules: Vec<Rule>,
    /// Settings without effect, or without the intended one.
    pub(crate) warnings: Vec<String>,
}

/// Loads a file. Every error starts with the flag.
pub(crate) fn load(path: &Path) -> Result<Configuration, Vec<String>> {
    let with_flag = |line: &str| format!("--config-file {}: {line}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| vec![with_flag(&error.to_string())])?;
    let mut configuration =
        parse(&text).map_err(|errors| errors.iter().map(|line| with_flag(line)).collect::<Vec<_>>())?;
    configuration.warnings = configuration.warnings.iter().map(|line| with_flag(line)).collect();
    Ok(configuration)
}

fn parse(text: &str) -> Result<Configuration, Vec<String>> {
    let (file, mut warnings) = file::parse(text).map_err(|error| vec![error])?;
    let mut errors = Vec::new();
    let Some(file) = file else {
        warnings.push("key authorization is missing: every request is authorized by its path".into());
        return Ok(Configuration { warnings, ..Configuration::default() });
    };
    let rules: Vec<Rule> = file
        .rules
        .into_iter()
        .enumerate()
        .filter_map(|(index, rule)| match rule.validate() {
            Ok(rule) => Some(rule),
            Err(InvalidRule(reason)) => {
                errors.push(format!("authorization.static[{index}]: {reason}"));
                None
            }
        })
        .collect();
    let rewrites = file.rewrites.and_then(|rewrites| {
        let header = rewrites.header.filter(|name| !name.is_empty()).and_then(|name| {
            HeaderName::try_from(name.as_str())
                .map_err(|_| {
                    errors.push(format!(
                        "authorization.rewrites.byHttpHeader.name: invalid header name {name:?}"
                    ))
                })
                .ok()
        });
        let query_parameter = rewrites.query_parameter.filter(|name| !name.is_empty());
        let rewrites = Rewrites { query_parameter, header };
        (rewrites != Rewrites::default()).then_some(rewrites)
    });
    let subresource_header = subresource_header(
        &file.subresource_header,
        file.attributes.as_ref(),
        rewrites.is_some(),
        &mut errors,
    );
    let mode = match (file.attributes, rewrites) {
        (None, rewrites) => {
            if rewrites.is_some() {
                warnings.push(
                    "authorization.rewrites has no effect without authorization.resourceAttributes".into(),
                );
            }
            AuthorizationMode::Path
        }
        (Some(texts), rewrites) => {
            let mut field = |name: &str, text: &str| {
                // Without rewrites, braces are literal text, as in kube-rbac-proxy.
                let template =
                    if rewrites.is_some() { Template::parse(text) } else { Some(Template::literal(text)) };
                template.unwrap_or_else(|| {
                    errors.push(format!(
                        "authorization.resourceAttributes.{name}: invalid template {text:?}: only {{{{ .Value }}}} is supported"
                    ));
                    Template::default()
                })
            };
            let template = ResourceTemplate {
                namespace: field("namespace", &texts.namespace),
                group: field("apiGroup", &texts.group),
                version: field("apiVersion", &texts.version),
                resource: field("resource", &texts.resource),
                subresource: field("subresource", &texts.subresource),
                name: field("name", &texts.name),
            };
            if rules.iter().any(Rule::is_for_paths) {
                warnings.push("authorization.static: rules with a path never match, because authorization.resourceAttributes turns every request into a resource request".into());
            }
            match (rewrites, subresource_header) {
                (Some(rewrites), _) => AuthorizationMode::Rewritten(template, rewrites),
                (None, Some(name)) => AuthorizationMode::SubresourceFromHeader(template, name),
                (None, None) => AuthorizationMode::Resource(template),
            }
        }
    };
    if errors.is_empty() { Ok(Configuration { mode, rules, warnings }) } else { Err(errors) }
}

/// Validates `authorization.subresourceFromHeader`. Without a fixed resource, or with a second source of the subresource,
/// it would not be clear what is authorized.
fn subresource_header(
    name: &str,
    attributes: Option<&RawResourceAttributes>,
    has_rewrites: bool,
    errors: &mut Vec<String>,
) -> Option<HeaderName> {
    if name.is_empty() {
        return None;
    }
    let mut invalid = |reason: &str| errors.push(format!("authorization.subresourceFromHeader: {reason}"));
    if has_rewrites {
        invalid("cannot be combined with authorization.rewrites: remove one of them");
    }
    match attributes {
        None => invalid("authorization.resourceAttributes is missing: add the resource of the subresources"),
        Some(attributes) if !attributes.subresource.is_empty() => {
            invalid(
                "cannot be combined with authorization.resourceAttributes.subresource: remove one of them",
            );
        }
        Some(_) => {}
    }
    match HeaderName::try_from(name) {
        Err(_) => {
            invalid(&format!("invalid header name {name:?}"));
            None
        }
        Ok(header) if subresource::is_reserved(&header) => {
            invalid(&format!("{name} has another meaning in HTTP: choose another header"));
            None
        }
        Ok(header) => Some(header),
    }
}

#[cfg(test)]
mod tests;
