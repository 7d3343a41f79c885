//! The configuration file. Scalars keep their source text: `on` and `1e3` are valid Kubernetes names.

use std::cell::RefCell;

use serde::de::{DeserializeSeed, MapAccess};
use serde_saphyr::DuplicateKeyPolicy;

use super::object::{ConfigObject, Field, Location, object};
use super::rules::Rule;

/// `authorization.resourceAttributes`.
#[derive(Debug, Default)]
pub(super) struct RawResourceAttributes {
    pub(super) namespace: String,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) name: String,
}

/// `authorization.rewrites`.
#[derive(Debug, Default)]
pub(super) struct RawRewrites {
    pub(super) query_parameter: Option<String>,
    pub(super) header: Option<String>,
}

/// `authorization`.
#[derive(Debug, Default)]
pub(super) struct RawAuthorization {
    pub(super) attributes: Option<RawResourceAttributes>,
    pub(super) rewrites: Option<RawRewrites>,
    pub(super) subresource_header: String,
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug, Default)]
struct Document {
    authorization: Option<RawAuthorization>,
}

#[derive(Debug, Default)]
struct RawName {
    name: String,
}

#[derive(Debug, Default)]
struct RawUser {
    name: String,
    groups: Vec<String>,
}

/// Returns the `authorization` object, if there is one, and warnings.
pub(super) fn parse(text: &str) -> Result<(Option<RawAuthorization>, Vec<String>), String> {
    let warnings = RefCell::new(Vec::new());
    let has_content = text.lines().any(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "---"
    });
    if !has_content {
        return Ok((None, Vec::new()));
    }
    let location = Location { path: String::new(), warnings: &warnings };
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let document: Option<Document> =
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            object(&location).deserialize(deserializer)
        })
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    Ok((document.and_then(|document| document.authorization), warnings.into_inner()))
}

impl ConfigObject for Document {
    const KEYS: &'static [&'static str] = &["authorization"];

    fn read<'de, A: MapAccess<'de>>(&mut self, field: Field<'_, A>) -> Result<(), A::Error> {
        self.authorization = field.object()?;
        Ok(())
    }
}

impl ConfigObject for RawAuthorization {
    const KEYS: &'static [&'static str] =
        &["resourceAttributes", "rewrites", "subresourceFromHeader", "static"];

    fn read<'de, A: MapAccess<'de>>(&mut self, field: Field<'_, A>) -> Result<(), A::Error> {
        match field.key {
            "resourceAttributes" => self.attributes = field.object()?,
            "rewrites" => self.rewrites = field.object()?,
            "subresourceFromHeader" => self.subresource_header = field.value()?,
            _ => self.rules = field.list()?,
        }
        Ok(())
    }
}

impl ConfigObject for RawResourceAttributes {
    const KEYS: &'static [&'static str] =
        &["namespace", "apiGroup", "apiVersion", "resource", "subresource", "name"];

    fn suggest(unknown: &str) -> Option<&'static str> {
        match unknown.to_ascii_lowercase().as_str() {
            "group" | "apigroups" => Some("apiGroup"),
            "version" => Some("apiVersion"),
            "resources" => Some("resource"),
            _ => None,
        }
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, field: Field<'_, A>) -> Result<(), A::Error> {
        match field.key {
            "namespace" => self.namespace = field.value()?,
            "apiGroup" => self.group = field.value()?,
            "apiVersion" => self.version = field.value()?,
            "resource" => self.resource = field.value()?,
            "subresource" => self.subresource = field.value()?,
            _ => self.name = field.value()?,
        }
        Ok(())
    }
}

impl ConfigObject for RawRewrites {
    const KEYS: &'static [&'static str] = &["byQueryParameter", "byHttpHeader"];

    fn read<'de, A: MapAccess<'de>>(&mut self, field: Field<'_, A>) -> Result<(), A::Error> {
        let source =
            if field.key == "byQueryParameter" { &mut self.query_parameter } else { &mut self.header };
        *source = field.object()?.map(|RawName { name }| name);
        Ok(())
    }
}

impl ConfigObject for RawName {
    const KEYS: &'static [&'static str] = &["name"];

    fn read<'de, A: MapAccess<'de>>(&mut self, field: Field<'_, A>) -> Result<(), A::Error> {
        self.name = field.value()?;
        Ok(())
    }
}

impl ConfigObject for RawUser {
    const KEYS: &'static [&'static str] = &["name", "groups"];

    fn read<'de, A: MapAccess<'de>>(&mut self, field: Field<'_, A>) -> Result<(), A::Error> {
        match field.key {
            "name" => self.name = field.value()?,
            _ => self.groups = field.value()?,
        }
        Ok(())
    }
}

impl ConfigObject for Rule {
    const KEYS: &'static [&'static str] = &[
        "user",
        "verb",
        "namespace",
        "apiGroup",
        "resource",
        "subresource",
        "name",
        "path",
        "resourceRequest",
    ];

    fn suggest(unknown: &str) -> Option<&'static str> {
        unknown.eq_ignore_ascii_case("group").then_some("apiGroup")
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, field: Field<'_, A>) -> Result<(), A::Error> {
        match field.key {
            "user" => {
                let user: RawUser = field.object()?.unwrap_or_default();
                (self.user, self.groups) = (user.name, user.groups);
            }
            "resourceRequest" => self.for_resources = field.value()?,
            "verb" => self.verb = field.value()?,
            "namespace" => self.namespace = field.value()?,
            "apiGroup" => self.group = field.value()?,
            "resource" => self.resource = field.value()?,
            "subresource" => self.subresource = field.value()?,
            "name" => self.name = field.value()?,
            _ => self.path = field.value()?,
        }
        Ok(())
    }
}
