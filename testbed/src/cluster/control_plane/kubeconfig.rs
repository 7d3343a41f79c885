//! Users of a control plane, and the files and clients they reach it with.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use crate::cluster::pki::{self, Authority, Identity};
use crate::error::{Error, Result};
use crate::tls;

/// Somebody with a client certificate for one API server, or for a proxy before it.
#[derive(Clone, Debug)]
pub struct User {
    name: String,
    identity: Identity,
    authority: String,
    server: String,
}

impl User {
    /// A new user of the server at `server`.
    pub(crate) fn issue(
        authority: &Authority,
        server: &str,
        name: &str,
        group: Option<&str>,
    ) -> Result<Self> {
        let identity = authority.client(name, group)?;
        Ok(Self { name: name.into(), identity, authority: authority.pem().into(), server: server.into() })
    }

    /// The name that RBAC knows.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The certificate and its key.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The same user at another address of the same cluster, such as a fault proxy's.
    #[must_use]
    pub fn at(&self, server: impl Into<String>) -> Self {
        Self { server: server.into(), ..self.clone() }
    }

    /// The kubeconfig, as JSON (which is YAML). It names no file, so it can be moved.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "testbed",
            "clusters": [{ "name": "testbed", "cluster": {
                "server": self.server,
                "certificate-authority-data": BASE64.encode(&self.authority),
            }}],
            "users": [{ "name": self.name, "user": {
                "client-certificate-data": BASE64.encode(&self.identity.certificate),
                "client-key-data": BASE64.encode(&self.identity.key),
            }}],
            "contexts": [{ "name": "testbed", "context": { "cluster": "testbed", "user": self.name } }],
        })
        .to_string()
    }

    /// Writes the kubeconfig into a folder, readable by its owner only.
    pub fn write_kubeconfig(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("{}.kubeconfig", self.name.replace([':', '/'], "-")));
        pki::write_secret(&path, &self.kubeconfig())?;
        Ok(path)
    }

    /// The configuration of a kube client.
    pub async fn config(&self) -> Result<Config> {
        let refused = |error: &dyn std::fmt::Display| {
            Error::Refused(format!("the kubeconfig of {}: {error}", self.name))
        };
        let parsed = Kubeconfig::from_yaml(&self.kubeconfig()).map_err(|error| refused(&error))?;
        Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
            .await
            .map_err(|error| refused(&error))
    }

    /// A kube client whose requests carry `user_agent`, by which the audit log tells clients apart.
    pub async fn client(&self, user_agent: &str) -> Result<Client> {
        tls::install_provider();
        let mut config = self.config().await?;
        let agent = user_agent.parse().map_err(|_| {
            Error::Refused(format!("{user_agent:?} cannot be a user agent: it is no header value"))
        })?;
        config.headers.push((http::header::USER_AGENT, agent));
        Ok(Client::try_from(config)?)
    }
}
