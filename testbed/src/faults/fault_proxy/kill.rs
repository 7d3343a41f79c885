//! Kills of clients. Between the fatal request and the end of the process, no other request of the same client is
//! forwarded.

use std::sync::Arc;

use tokio::sync::watch;

use super::fault::{Kill, KillPoint};
use super::journal::Journal;
use super::request::RequestInfo;
use super::rules::Rule;

/// Identifies a client.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Client {
    user: String,
    agent: String,
}

impl Client {
    fn from_request(info: &RequestInfo) -> Self {
        Self { user: info.user.clone(), agent: info.agent.clone() }
    }
}

/// The clients that are being killed.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingKills {
    clients: Arc<watch::Sender<Vec<Client>>>,
}

impl PendingKills {
    /// Returns what a request must wait for if its client is being killed.
    pub(super) fn block(&self, info: &RequestInfo) -> Option<BlockedRequest> {
        let client = Client::from_request(info);
        let clients = self.clients.subscribe();
        let is_blocked = clients.borrow().contains(&client);
        is_blocked.then_some(BlockedRequest { client, clients })
    }

    /// Blocks all further requests of this client until the returned value is dropped.
    pub(super) fn begin(&self, info: &RequestInfo, rule: Arc<Rule>, kill: Kill) -> PendingKill {
        let client = Client::from_request(info);
        self.clients.send_modify(|clients| clients.push(client.clone()));
        let block = ClientBlock { pending_kills: self.clone(), client };
        PendingKill { block, rule, kill }
    }
}

/// Completes when the client was killed.
#[derive(Debug)]
pub(super) struct BlockedRequest {
    client: Client,
    clients: watch::Receiver<Vec<Client>>,
}

impl BlockedRequest {
    pub(super) async fn released(mut self) {
        // Fails if the proxy was dropped, which ends this task too.
        let _ = self.clients.wait_for(|clients| !clients.contains(&self.client)).await;
    }
}

/// A pending kill.
#[derive(Debug)]
pub(super) struct PendingKill {
    block: ClientBlock,
    rule: Arc<Rule>,
    kill: Kill,
}

impl PendingKill {
    pub(super) fn kill_point(&self) -> KillPoint {
        self.kill.point
    }

    /// Kills the process and returns when it is gone.
    pub(super) async fn run(self, journal: &Journal) {
        let kill_process = self.kill.act.clone();
        let done = match tokio::task::spawn_blocking(move || kill_process()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        // Unblock before reporting success: a test that waits for it starts the next process, which must get
        // through.
        drop(self.block);
        match done {
            Ok(()) => self.rule.fire(),
            Err(error) => {
                let failure = format!("killing a process failed: {error}");
                journal.fail(failure.clone());
                self.rule.fail(failure);
            }
        }
    }
}

/// Blocks a client while it exists.
#[derive(Debug)]
struct ClientBlock {
    pending_kills: PendingKills,
    client: Client,
}

impl Drop for ClientBlock {
    fn drop(&mut self) {
        self.pending_kills.clients.send_modify(|clients| {
            if let Some(position) = clients.iter().position(|client| *client == self.client) {
                clients.remove(position);
            }
        });
    }
}
