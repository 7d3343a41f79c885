//! Users of a control plane, their kubeconfigs and clients.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use crate::cluster::pki::{self, CertificateAuthority, Identity};
use crate::error::{Error, Result};
use crate::tls;

/// A user with a client certificate for an API server, or for a proxy in front of it.
#[derive(Clone, Debug)]
pub struct User {
    name: String,
    identity: Identity,
    ca: String,
    server: String,
}

impl User {
    /// Issues a user of the API server at `server`.
    pub(crate) fn issue(
        ca: &CertificateAuthority,
        server: &str,
        name: &str,
        group: Option<&str>,
    ) -> Result<Self> {
        let identity = ca.issue_client(name, group)?;
        Ok(Self { name: name.into(), identity, ca: ca.pem().into(), server: server.into() })
    }

    /// Returns the user name, as used in RBAC.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the client certificate and its key.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the same user for another URL of the API server, such as that of a fault proxy.
    #[must_use]
    pub fn at(&self, server: impl Into<String>) -> Self {
        Self { server: server.into(), ..self.clone() }
    }

    /// Returns the kubeconfig, as JSON. Self-contained, so it can be moved.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "testbed",
            "clusters": [{ "name": "testbed", "cluster": {
                "server": self.server,
                "certificate-authority-data": BASE64.encode(&self.ca),
            }}],
            "users": [{ "name": self.name, "user": {
                "client-certificate-data": BASE64.encode(&self.identity.certificate),
                "client-key-data": BASE64.encode(&self.identity.key),
            }}],
            "contexts": [{ "name": "testbed", "context": { "cluster": "testbed", "user": self.name } }],
        })
        .to_string()
    }

    /// Writes the kubeconfig to a directory, readable by its owner only.
    pub fn write_kubeconfig(&self, dir: &Path) -> Result<PathBuf> {
        let path = dir.join(format!("{}.kubeconfig", self.name.replace([':', '/'], "-")));
        pki::write_secret(&path, &self.kubeconfig())?;
        Ok(path)
    }

    /// Returns the configuration of a kube client.
    pub async fn config(&self) -> Result<Config> {
        let invalid = |error: &dyn std::fmt::Display| {
            Error::Other(format!("invalid kubeconfig of {}: {error}", self.name))
        };
        let parsed = Kubeconfig::from_yaml(&self.kubeconfig()).map_err(|error| invalid(&error))?;
        Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
            .await
            .map_err(|error| invalid(&error))
    }

    /// Returns a kube client with a user agent, which identifies its requests in the audit log.
    pub async fn client(&self, user_agent: &str) -> Result<Client> {
        tls::install_provider();
        let mut config = self.config().await?;
        let agent = user_agent.parse().map_err(|_| {
            Error::Other(format!("invalid user agent {user_agent:?}: not a valid header value"))
        })?;
        config.headers.push((http::header::USER_AGENT, agent));
        Ok(Client::try_from(config)?)
    }
}
