//! The authorization configuration, read once at the start.

mod file;
mod record;
mod rules;
mod template;

use std::path::Path;

pub(crate) use self::rules::{Refused, Rule};
pub(crate) use self::template::Template;

/// Names of what a request asks for, each with the value of a rewrite in it, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceTemplate {
    pub(crate) namespace: Template,
    pub(crate) group: Template,
    pub(crate) version: Template,
    pub(crate) resource: Template,
    pub(crate) subresource: Template,
    pub(crate) name: Template,
}

/// What the values of a rewrite are taken from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rewrites {
    pub(crate) query_parameter: Option<String>,
    pub(crate) header: Option<http::HeaderName>,
}

/// What is asked of the API server about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Question {
    /// Whether its path may be used.
    #[default]
    Path,
    /// Whether a resource may be; the same for every request.
    Resource(ResourceTemplate),
    /// Whether a resource may be, for each of the values that the request carries.
    Rewritten(ResourceTemplate, Rewrites),
}

/// The configuration, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Configuration {
    pub(crate) question: Question,
    pub(crate) rules: Vec<Rule>,
    /// What was written and has no effect, or not the one that was meant: one sentence each.
    pub(crate) warnings: Vec<String>,
}

/// Reads a file; every problem is one line that begins with the flag.
pub(crate) fn load(path: &Path) -> Result<Configuration, Vec<String>> {
    let named = |line: &str| format!("--config-file {}: {line}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| vec![named(&error.to_string())])?;
    let mut configuration =
        parse(&text).map_err(|problems| problems.iter().map(|line| named(line)).collect::<Vec<_>>())?;
    configuration.warnings = configuration.warnings.iter().map(|line| named(line)).collect();
    Ok(configuration)
}

fn parse(text: &str) -> Result<Configuration, Vec<String>> {
    let (file, mut warnings) = file::read(text).map_err(|why| vec![why])?;
    let mut problems = Vec::new();
    let Some(file) = file else {
        warnings.push("there is no key authorization: every request is checked by its path".into());
        return Ok(Configuration { warnings, ..Configuration::default() });
    };
    let rules: Vec<Rule> = file
        .rules
        .into_iter()
        .enumerate()
        .filter_map(|(index, rule)| match rule.checked() {
            Ok(rule) => Some(rule),
            Err(Refused(why)) => {
                problems.push(format!("authorization.static[{index}]: {why}"));
                None
            }
        })
        .collect();
    let rewrites = file.rewrites.and_then(|rewrites| {
        let header = rewrites.header.filter(|name| !name.is_empty()).and_then(|name| {
            http::HeaderName::try_from(name.as_str())
                .map_err(|_| {
                    problems
                        .push(format!("authorization.rewrites.byHttpHeader.name: {name:?} is no header name"))
                })
                .ok()
        });
        let query_parameter = rewrites.query_parameter.filter(|name| !name.is_empty());
        let some = Rewrites { query_parameter, header };
        (some != Rewrites::default()).then_some(some)
    });
    let question = match (file.attributes, rewrites) {
        (None, rewrites) => {
            if rewrites.is_some() {
                warnings.push(
                    "authorization.rewrites has no effect without authorization.resourceAttributes".into(),
                );
            }
            Question::Path
        }
        (Some(texts), rewrites) => {
            let mut field = |name: &str, text: &str| {
                // Without rewrites nothing is put in, and braces are just text, as they were.
                let template =
                    if rewrites.is_some() { Template::parse(text) } else { Some(Template::text(text)) };
                template.unwrap_or_else(|| {
                    problems.push(format!(
                        "authorization.resourceAttributes.{name}: {text:?} is no template: only {{{{ .Value }}}} may stand in braces"
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
                warnings.push("authorization.static: rules with a path never match, since authorization.resourceAttributes makes every request one for a resource".into());
            }
            match rewrites {
                None => Question::Resource(template),
                Some(rewrites) => Question::Rewritten(template, rewrites),
            }
        }
    };
    if problems.is_empty() { Ok(Configuration { question, rules, warnings }) } else { Err(problems) }
}

#[cfg(test)]
mod tests;
