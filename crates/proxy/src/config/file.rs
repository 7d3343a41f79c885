//! The file as it is written. Scalars stay the text that stands there: `on` and `1e3` are legal names in Kubernetes.

use std::cell::RefCell;
use std::marker::PhantomData;

use serde::de::{DeserializeSeed, MapAccess};
use serde_saphyr::DuplicateKeyPolicy;

use super::record::{List, Object, Place, Record};
use super::rules::Rule;

/// `authorization.resourceAttributes`.
#[derive(Debug, Default)]
pub(super) struct AttributeTexts {
    pub(super) namespace: String,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) resource: String,
    pub(super) subresource: String,
    pub(super) name: String,
}

/// `authorization.rewrites`.
#[derive(Debug, Default)]
pub(super) struct RewriteTexts {
    pub(super) query_parameter: Option<String>,
    pub(super) header: Option<String>,
}

/// `authorization`.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) attributes: Option<AttributeTexts>,
    pub(super) rewrites: Option<RewriteTexts>,
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug, Default)]
struct Document {
    authorization: Option<File>,
}

#[derive(Debug, Default)]
struct Named {
    name: String,
}

#[derive(Debug, Default)]
struct UserTexts {
    name: String,
    groups: Vec<String>,
}

/// What stands below `authorization`, and warnings. None without such a key.
pub(super) fn read(text: &str) -> Result<(Option<File>, Vec<String>), String> {
    let warnings = RefCell::new(Vec::new());
    let written = text.lines().any(|line| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "---"
    });
    if !written {
        return Ok((None, Vec::new()));
    }
    let place = Place { path: String::new(), warnings: &warnings };
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    let document: Option<Document> =
        serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
            Object::at(&place).deserialize(deserializer)
        })
        .map_err(|error| error.to_string().lines().next().unwrap_or_default().to_owned())?;
    Ok((document.and_then(|document| document.authorization), warnings.into_inner()))
}

fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<String, A::Error> {
    Ok(map.next_value::<Option<String>>()?.unwrap_or_default())
}

impl Record for Document {
    const KNOWN: &'static [&'static str] = &["authorization"];

    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        _: &str,
        map: &mut A,
        place: &Place<'_>,
    ) -> Result<(), A::Error> {
        self.authorization = map.next_value_seed(Object::at(place))?;
        Ok(())
    }
}

impl Record for File {
    const KNOWN: &'static [&'static str] = &["resourceAttributes", "rewrites", "static"];

    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        place: &Place<'_>,
    ) -> Result<(), A::Error> {
        match key {
            "resourceAttributes" => self.attributes = map.next_value_seed(Object::at(place))?,
            "rewrites" => self.rewrites = map.next_value_seed(Object::at(place))?,
            _ => self.rules = map.next_value_seed(List(place, PhantomData))?,
        }
        Ok(())
    }
}

impl Record for AttributeTexts {
    const KNOWN: &'static [&'static str] =
        &["namespace", "apiGroup", "apiVersion", "resource", "subresource", "name"];

    fn hint(unknown: &str) -> Option<&'static str> {
        match unknown.to_ascii_lowercase().as_str() {
            "group" | "apigroups" => Some("apiGroup"),
            "version" => Some("apiVersion"),
            "resources" => Some("resource"),
            _ => None,
        }
    }

    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        _: &Place<'_>,
    ) -> Result<(), A::Error> {
        let field = match key {
            "namespace" => &mut self.namespace,
            "apiGroup" => &mut self.group,
            "apiVersion" => &mut self.version,
            "resource" => &mut self.resource,
            "subresource" => &mut self.subresource,
            _ => &mut self.name,
        };
        *field = text(map)?;
        Ok(())
    }
}

impl Record for RewriteTexts {
    const KNOWN: &'static [&'static str] = &["byQueryParameter", "byHttpHeader"];

    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        place: &Place<'_>,
    ) -> Result<(), A::Error> {
        let named: Option<Named> = map.next_value_seed(Object::at(place))?;
        let name = named.map(|named| named.name);
        if key == "byQueryParameter" {
            self.query_parameter = name
        } else {
            self.header = name
        }
        Ok(())
    }
}

impl Record for Named {
    const KNOWN: &'static [&'static str] = &["name"];

    fn take<'de, A: MapAccess<'de>>(&mut self, _: &str, map: &mut A, _: &Place<'_>) -> Result<(), A::Error> {
        self.name = text(map)?;
        Ok(())
    }
}

impl Record for UserTexts {
    const KNOWN: &'static [&'static str] = &["name", "groups"];

    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        _: &Place<'_>,
    ) -> Result<(), A::Error> {
        if key == "name" {
            self.name = text(map)?;
        } else {
            self.groups = map.next_value::<Option<Vec<String>>>()?.unwrap_or_default();
        }
        Ok(())
    }
}

impl Record for Rule {
    const KNOWN: &'static [&'static str] = &[
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

    fn hint(unknown: &str) -> Option<&'static str> {
        unknown.eq_ignore_ascii_case("group").then_some("apiGroup")
    }

    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
        place: &Place<'_>,
    ) -> Result<(), A::Error> {
        let field = match key {
            "user" => {
                let user: Option<UserTexts> = map.next_value_seed(Object::at(place))?;
                let user = user.unwrap_or_default();
                (self.user, self.groups) = (user.name, user.groups);
                return Ok(());
            }
            "resourceRequest" => {
                self.for_resources = map.next_value::<Option<bool>>()?.unwrap_or_default();
                return Ok(());
            }
            "verb" => &mut self.verb,
            "namespace" => &mut self.namespace,
            "apiGroup" => &mut self.group,
            "resource" => &mut self.resource,
            "subresource" => &mut self.subresource,
            "name" => &mut self.name,
            _ => &mut self.path,
        };
        *field = text(map)?;
        Ok(())
    }
}
