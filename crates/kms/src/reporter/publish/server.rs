//! Clients of API servers. A client is created on first use, and again after a failure: credentials may appear late, and rotate.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use runtime::metrics::Metrics;

use crate::reporter::settings::Server;

const USER_AGENT: &str = concat!("outrigger-kms-reporter/", env!("CARGO_PKG_VERSION"));

/// One API server and its client.
pub(super) struct ApiServer {
    server: Server,
    /// Provides the credentials for a URL.
    credentials: Server,
    metrics: Metrics,
    client: Option<Client>,
}

impl ApiServer {
    pub(super) fn from_settings(servers: &[Server], metrics: &Metrics) -> Vec<Self> {
        let first = servers.first().cloned().unwrap_or(Server::InCluster);
        let api_server = |server: &Server| Self {
            server: server.clone(),
            credentials: first.clone(),
            metrics: metrics.clone(),
            client: None,
        };
        servers.iter().map(api_server).collect()
    }

    /// Returns the client, creating it if needed.
    pub(super) async fn client(&mut self) -> Result<Client, String> {
        if let Some(client) = &self.client {
            return Ok(client.clone());
        }
        let config = self.config().await?;
        let client =
            runtime::client::connect(config, USER_AGENT, &self.metrics).map_err(|error| error.to_string())?;
        self.client = Some(client.clone());
        Ok(client)
    }

    /// Drops the client. The next one reads the kubeconfig and credential files again.
    pub(super) fn discard_client(&mut self) {
        self.client = None;
    }

    async fn config(&self) -> Result<Config, String> {
        let Server::Url(url) = &self.server else { return load(&self.server).await };
        let mut config = load(&self.credentials).await?;
        config.cluster_url = url.clone();
        config.tls_server_name = None;
        Ok(config)
    }
}

async fn load(server: &Server) -> Result<Config, String> {
    match server {
        Server::Kubeconfig(path) => {
            let failed =
                |error: kube::config::KubeconfigError| format!("--kubeconfig {}: {error}", path.display());
            let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(failed)
        }
        Server::InCluster | Server::Url(_) => Config::incluster().map_err(|error| {
            format!("loading the pod's service account: {error}; set --kubeconfig outside of a pod")
        }),
    }
}
