//! The killing of a client. From the fatal request to its end nothing else of the same client gets through.

use std::sync::Arc;

use tokio::sync::watch;

use super::fault::{Kill, Moment};
use super::journal::Journal;
use super::request::Asked;
use super::rules::Rule;

/// Who is recognized as the same client.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Client {
    user: String,
    agent: String,
}

impl Client {
    fn of(asked: &Asked) -> Self {
        Self { user: asked.user.clone(), agent: asked.agent.clone() }
    }
}

/// The clients that are about to be killed.
#[derive(Clone, Debug, Default)]
pub(super) struct Executions {
    condemned: Arc<watch::Sender<Vec<Client>>>,
}

impl Executions {
    /// What a request has to wait for, when its client is about to be killed.
    pub(super) fn gate(&self, asked: &Asked) -> Option<Gate> {
        let client = Client::of(asked);
        let condemned = self.condemned.subscribe();
        let closed = condemned.borrow().contains(&client);
        closed.then_some(Gate { client, condemned })
    }

    /// Nothing more of this client gets through until the returned value is gone.
    pub(super) fn condemn(&self, asked: &Asked, rule: Arc<Rule>, kill: Kill) -> Execution {
        let client = Client::of(asked);
        self.condemned.send_modify(|clients| clients.push(client.clone()));
        let closed = ClosedGate { executions: self.clone(), client };
        Execution { closed, rule, kill }
    }
}

/// Opens when a client has been killed.
#[derive(Debug)]
pub(super) struct Gate {
    client: Client,
    condemned: watch::Receiver<Vec<Client>>,
}

impl Gate {
    pub(super) async fn opened(mut self) {
        // Fails when the proxy is gone, which ends this too.
        let _ = self.condemned.wait_for(|clients| !clients.contains(&self.client)).await;
    }
}

/// A killing that will be carried out.
#[derive(Debug)]
pub(super) struct Execution {
    closed: ClosedGate,
    rule: Arc<Rule>,
    kill: Kill,
}

impl Execution {
    pub(super) fn moment(&self) -> Moment {
        self.kill.moment
    }

    /// Kills, and returns when it is done.
    pub(super) async fn carry_out(self, journal: &Journal) {
        let act = self.kill.act.clone();
        let done = match tokio::task::spawn_blocking(move || act()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        // Before anybody hears of it: who waits for this starts the next process, which must find the gate open.
        drop(self.closed);
        match done {
            Ok(()) => self.rule.fire(),
            Err(error) => {
                let failure = format!("a process could not be killed: {error}");
                journal.fail(failure.clone());
                self.rule.fail(failure);
            }
        }
    }
}

/// Keeps a client out while it lives.
#[derive(Debug)]
struct ClosedGate {
    executions: Executions,
    client: Client,
}

impl Drop for ClosedGate {
    fn drop(&mut self) {
        self.executions.condemned.send_modify(|clients| {
            if let Some(position) = clients.iter().position(|client| *client == self.client) {
                clients.remove(position);
            }
        });
    }
}
