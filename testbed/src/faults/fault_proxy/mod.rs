//! Proxy that injects faults between a process under test and the real API server, on demand and countable.
//!
//! A [`FaultProxy`] terminates TLS on both sides and verifies both. It sees every request and every watch event, writes
//! them to its [`Journal`], and applies the injected faults. To the API server it is an authenticating front proxy that
//! names the user of the client certificate, so RBAC and the audit log see the real user.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use testbed::faults::fault_proxy::{Fault, FaultProxy, LostResponse, RequestMatcher, Times};
//! # async fn example(plane: &testbed::ControlPlane) -> testbed::Result<()> {
//! let proxy = FaultProxy::start(plane).await?;
//! let client = plane.admin().at(proxy.url()).client("operator/1").await?;
//! let lost = proxy.inject(Fault::LoseResponse(LostResponse::Reset), RequestMatcher::writes(), Times::Nth(3));
//! // ... let the client work ...
//! lost.wait_fired(1, Duration::from_secs(10)).await?;
//! # Ok(()) }
//! ```
//!
//! Faults apply in order of injection. Delays add up; the first other fault that applies to a request decides, and
//! faults behind it do not count the request.
//!
//! Only HTTP/1.1 is spoken, responses are JSON, and upgrades (exec, attach, port-forward) get 501.

mod connection;
mod entry;
mod error_response;
mod event;
mod exchange;
mod fault;
mod forward;
mod freeze;
mod identity;
mod injection;
pub mod journal;
mod kill;
mod matcher;
mod query;
mod relay;
mod request;
mod rules;
mod upstream;
mod watches;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

pub use self::error_response::ErrorResponse;
pub use self::event::EventType;
pub use self::fault::{Fault, Kill, KillPoint, LostResponse, ResponseRewrite};
pub use self::freeze::Revision;
pub use self::injection::Injection;
pub use self::journal::Journal;
pub use self::matcher::{RequestMatcher, Times};
pub use self::request::{RequestInfo, Resource, Verb};
pub use self::watches::WatchEnd;

use self::exchange::Shared;
use self::rules::Effect;
use self::upstream::Upstream;
use crate::cluster::control_plane::ControlPlane;
use crate::cluster::pki::ServerNames;
use crate::error::{IoContext, Result};
use crate::tls;

/// A running proxy; it stops when dropped and closes all connections.
pub struct FaultProxy {
    url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts a proxy in front of the API server of a control plane, on the host address of the site, which nodes
    /// and pods can reach, too. The journal is a file in the log directory of the site.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self::start_with_journal(plane, plane.site().logs().join(format!("fault-proxy-{number}.jsonl"))).await
    }

    /// Starts a proxy with its journal in this file, which is truncated.
    pub async fn start_with_journal(plane: &ControlPlane, journal: impl Into<PathBuf>) -> Result<Self> {
        let address = IpAddr::from(plane.site().addresses().host());
        let names = ServerNames { addresses: vec![address], ..ServerNames::default() };
        let identity = plane.ca().issue_server("fault-proxy", &names)?;
        let mut config = tls::server(plane.ca().pem(), &identity)?;
        // One request at a time per connection, so that a reset affects only one.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let shared = Arc::new(Shared {
            upstream: Upstream::new(plane)?,
            journal: Journal::create(journal.into())?,
            rules: rules::Rules::default(),
            watches: Arc::default(),
            pending_kills: kill::PendingKills::default(),
        });
        let listening = || format!("listening on {address}");
        let listener = TcpListener::bind((address, 0)).await.context(listening)?;
        let url = format!("https://{}", listener.local_addr().context(listening)?);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let server = tokio::spawn(connection::serve(listener, acceptor, shared.clone()));
        Ok(Self { url, shared, server })
    }

    /// Returns the URL, for [`User::at`](crate::cluster::control_plane::User::at).
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the journal.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Fails if the proxy itself failed: the journal could not be written, or a process could not be killed. All
    /// requests get 500 from then on.
    pub fn check(&self) -> Result<()> {
        self.shared.journal.check()
    }

    /// Injects a fault into requests.
    pub fn inject(&self, fault: Fault, matching: RequestMatcher, times: Times) -> Injection {
        Injection::new(&self.shared, matching, times, Effect::Request(fault))
    }

    /// Drops events of these types (all types if empty) in matching watches. Namespace and name of `matching` refer
    /// to the object of the event, and `times` counts events.
    pub fn drop_events(
        &self,
        types: impl IntoIterator<Item = EventType>,
        matching: RequestMatcher,
        times: Times,
    ) -> Injection {
        Injection::new(&self.shared, matching, times, Effect::DropEvents(types.into_iter().collect()))
    }

    /// Makes matching watches, open and new ones, stay open without delivering anything: no events, no bookmarks,
    /// no end. Simulates a half-open TCP connection; when the fault is removed, the connection is reset. Withheld
    /// events are not delivered afterwards. Later watches work.
    ///
    /// A new watch gets the head of its response. To withhold that, too, inject a long [`Fault::Delay`].
    pub fn black_hole(&self, matching: RequestMatcher) -> Injection {
        Injection::new(&self.shared, matching, Times::Always, Effect::BlackHole)
    }

    /// Returns the current revision of the cluster, for [`freeze`](Self::freeze).
    pub async fn current_revision(&self) -> Result<Revision> {
        freeze::current_revision(&self.shared.upstream).await
    }

    /// Freezes the view of matching clients at `revision`, like an API server with a stuck watch cache: lists and
    /// gets return the state at that revision, and watches deliver nothing newer. Writes are executed, with current
    /// responses. When the fault is removed, withheld events are delivered in order.
    ///
    /// With a past revision, clients go back in time: they see less than they have seen before.
    ///
    /// Gets of subresources are not frozen. A revision can be read until etcd compacts it, at least five minutes.
    pub fn freeze(&self, revision: Revision, matching: RequestMatcher) -> Injection {
        Injection::new(&self.shared, matching, Times::Always, Effect::Freeze(revision))
    }

    /// Ends matching open watches and returns their number.
    pub fn end_watches(&self, matching: &RequestMatcher, how: &WatchEnd) -> usize {
        self.shared.watches.end(matching, how)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}
