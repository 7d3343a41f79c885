//! Faults between a process under test and the real API server, on purpose and countable.
//!
//! A [`FaultProxy`] ends TLS on both sides and verifies both. It sees every request and every watch event, writes them
//! into its [`Journal`], and does to them what was injected. To the API server it is an authenticating front proxy that
//! names the user of the client's certificate, so RBAC and the audit log see who really asked.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use testbed::fault_proxy::{Fault, FaultProxy, Loss, Matching, Times};
//! # async fn example(plane: &testbed::ControlPlane) -> testbed::Result<()> {
//! let proxy = FaultProxy::before(plane).await?;
//! let client = plane.admin().at(proxy.url()).client("operator/1").await?;
//! let lost = proxy.inject(Fault::LoseAnswer(Loss::Reset), Matching::writes(), Times::Nth(3));
//! // ... let the client work ...
//! lost.wait_fired(1, Duration::from_secs(10)).await?;
//! # Ok(()) }
//! ```
//!
//! Faults stand in line: a request meets them in the order in which they were injected. Delays let it go on; the first
//! other fault that takes it decides, and those behind it do not count it.
//!
//! Only HTTP/1.1 is spoken, answers are JSON, and upgrades (exec, attach, port-forward) are answered with 501.

mod connection;
mod entry;
mod event;
mod exchange;
mod execution;
mod fault;
mod forward;
mod freeze;
mod identity;
mod injection;
pub mod journal;
mod matching;
mod query;
mod refusal;
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

pub use self::event::EventType;
pub use self::fault::{Alteration, Fault, Kill, Loss, Moment};
pub use self::freeze::Revision;
pub use self::injection::Injection;
pub use self::journal::Journal;
pub use self::matching::{Matching, Times};
pub use self::refusal::Refusal;
pub use self::request::{Asked, Resource, Verb};
pub use self::watches::WatchEnd;

use self::exchange::Shared;
use self::rules::Effect;
use self::upstream::Upstream;
use crate::cluster::control_plane::ControlPlane;
use crate::cluster::pki::ServerNames;
use crate::error::{IoContext, Result};
use crate::tls;

/// A running proxy; it ends when dropped, and with it every connection through it.
pub struct FaultProxy {
    url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl FaultProxy {
    /// A proxy before the API server of a control plane, at the site's host address, where nodes and pods reach it too.
    /// Its journal is a file among the site's logs.
    pub async fn before(plane: &ControlPlane) -> Result<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self::recorded_in(plane, plane.site().logs().join(format!("fault-proxy-{number}.jsonl"))).await
    }

    /// The same with its journal in a file of the caller's choice, which is written anew.
    pub async fn recorded_in(plane: &ControlPlane, journal: impl Into<PathBuf>) -> Result<Self> {
        let address = IpAddr::from(plane.site().addresses().host());
        let names = ServerNames { addresses: vec![address], ..ServerNames::default() };
        let identity = plane.authority().server("fault-proxy", &names)?;
        let mut config = tls::server(plane.authority().pem(), &identity)?;
        // One request at a time on a connection: a reset hits the one it is meant for.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let shared = Arc::new(Shared {
            upstream: Upstream::of(plane)?,
            journal: Journal::create(journal.into())?,
            rules: rules::Rules::default(),
            watches: Arc::default(),
            executions: execution::Executions::default(),
        });
        let listening = || format!("listening on {address}");
        let listener = TcpListener::bind((address, 0)).await.context(listening)?;
        let url = format!("https://{}", listener.local_addr().context(listening)?);
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let server = tokio::spawn(connection::serve(listener, acceptor, shared.clone()));
        Ok(Self { url, shared, server })
    }

    /// Its address, for [`User::at`](crate::cluster::control_plane::User::at).
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What happened so far.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Fails when something went wrong in the proxy itself: the journal could not be written, a process could not be
    /// killed. Requests are answered with 500 from then on.
    pub fn check(&self) -> Result<()> {
        self.shared.journal.check()
    }

    /// Does something to requests.
    pub fn inject(&self, fault: Fault, matching: Matching, times: Times) -> Injection {
        Injection::new(&self.shared, matching, times, Effect::Request(fault))
    }

    /// Never delivers events of these types (of every type when none is named) to the watches that fit. Namespace and
    /// name of `matching` are those of the event's object, and `times` counts events.
    pub fn drop_events(
        &self,
        types: impl IntoIterator<Item = EventType>,
        matching: Matching,
        times: Times,
    ) -> Injection {
        Injection::new(&self.shared, matching, times, Effect::DropEvents(types.into_iter().collect()))
    }

    /// Lets watches that fit, open and new ones, stay open and deliver nothing: neither events nor bookmarks, nor their
    /// end. Like a half-open TCP connection, of which the peer does not know: its bytes never come, and when the fault
    /// is lifted it is reset. What was withheld is not delivered afterwards. Watches that begin later work.
    ///
    /// A new watch gets the head of its answer. To keep back even that, inject a long [`Fault::Delay`].
    pub fn black_hole(&self, matching: Matching) -> Injection {
        Injection::new(&self.shared, matching, Times::Always, Effect::BlackHole)
    }

    /// The present moment of the cluster, for [`freeze`](Self::freeze).
    pub async fn now(&self) -> Result<Revision> {
        freeze::present(&self.shared.upstream).await
    }

    /// Shows those who fit the world as it was at `revision`, as an API server does whose watch cache hangs: lists and
    /// gets answer the state of that moment, and watches deliver nothing newer. Writes are done, and their answers are
    /// of the present. When the fault is lifted, withheld events are delivered in their order.
    ///
    /// A moment that lies in the past makes clients travel in time: they are shown less than they have seen already.
    ///
    /// Gets of subresources are not frozen. A moment can be shown until etcd forgets it, for at least five minutes.
    pub fn freeze(&self, revision: Revision, matching: Matching) -> Injection {
        Injection::new(&self.shared, matching, Times::Always, Effect::Freeze(revision))
    }

    /// Ends the open watches that fit, and returns how many these were.
    pub fn end_watches(&self, matching: &Matching, how: &WatchEnd) -> usize {
        self.shared.watches.end(matching, how)
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.server.abort();
    }
}
