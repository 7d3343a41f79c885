//! Ways to API servers. A client is made when it is needed, and made anew after it failed: credentials may come late, and change.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use runtime::metrics::Metrics;

use crate::reporter::settings::Server;

/// Who we are to the API server.
const USER_AGENT: &str = concat!("outrigger-kms-reporter/", env!("CARGO_PKG_VERSION"));

/// One way to an API server.
pub(super) struct Way {
    server: Server,
    /// Whose credentials an address is used with.
    first: Server,
    metrics: Metrics,
    client: Option<Client>,
}

impl Way {
    pub(super) fn all(servers: &[Server], metrics: &Metrics) -> Vec<Self> {
        let first = servers.first().cloned().unwrap_or(Server::InCluster);
        let way = |server: &Server| Self {
            server: server.clone(),
            first: first.clone(),
            metrics: metrics.clone(),
            client: None,
        };
        servers.iter().map(way).collect()
    }

    /// The client, or why there is none.
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

    /// The next client is made of what the files say then.
    pub(super) fn forget(&mut self) {
        self.client = None;
    }

    async fn config(&self) -> Result<Config, String> {
        let Server::At(address) = &self.server else { return load(&self.server).await };
        let mut config = load(&self.first).await?;
        config.cluster_url = address.clone();
        config.tls_server_name = None;
        Ok(config)
    }
}

async fn load(server: &Server) -> Result<Config, String> {
    match server {
        Server::Kubeconfig(path) => {
            let refused =
                |error: kube::config::KubeconfigError| format!("--kubeconfig {}: {error}", path.display());
            let read = Kubeconfig::read_from(path).map_err(refused)?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.map_err(refused)
        }
        Server::InCluster | Server::At(_) => Config::incluster()
            .map_err(|error| format!("the pod's service account: {error}; or give --kubeconfig")),
    }
}
