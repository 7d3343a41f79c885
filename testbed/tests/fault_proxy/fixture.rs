//! Fixture of the fault proxy tests, and helpers for watches.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectMeta, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use testbed::cluster::control_plane::User;
use testbed::faults::fault_proxy::journal::{EventEntry, Fate};
use testbed::faults::fault_proxy::{FaultProxy, RequestMatcher, Resource};
use testbed::{Context, ControlPlane, Result};

/// Everything here takes milliseconds; only a very busy machine comes close to this.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Long enough for an event in flight to arrive: each use follows a journal check that the event has reached the
/// proxy.
const QUIET: Duration = Duration::from_millis(150);

/// A proxy in front of the shared control plane, and a namespace for the test.
pub struct Fixture<'a> {
    pub plane: &'a ControlPlane,
    pub proxy: FaultProxy,
    pub ns: String,
    /// Bypasses the proxy.
    pub direct: Api<ConfigMap>,
    /// Through the proxy, without retries, so that the client sees the fault itself.
    pub maps: Api<ConfigMap>,
}

impl<'a> Fixture<'a> {
    pub async fn new(cx: &'a Context) -> Result<Self> {
        let plane = cx.control_plane().await?;
        let ns = cx.namespace().await?;
        std::fs::create_dir_all(cx.logs())
            .map_err(|source| testbed::Error::Io { what: "logs".into(), source })?;
        let proxy = FaultProxy::start_with_journal(plane, cx.logs().join("fault-proxy.jsonl")).await?;
        let direct = Api::namespaced(plane.client().await?, &ns);
        let maps = Api::namespaced(client(&proxy, plane.admin(), cx.name()).await?, &ns);
        Ok(Self { plane, proxy, ns, direct, maps })
    }

    /// Returns another client of the same namespace through the proxy.
    pub async fn maps_as(&self, user: &User, agent: &str) -> Result<Api<ConfigMap>> {
        Ok(Api::namespaced(client(&self.proxy, user, agent).await?, &self.ns))
    }

    /// Returns the names of the stored maps, bypassing the proxy.
    pub async fn stored_names(&self) -> Result<Vec<String>> {
        let list = self.direct.list(&Default::default()).await?;
        Ok(list.iter().map(ResourceExt::name_any).collect())
    }

    /// Waits until the proxy has withheld `count` matching events in the namespace of the test.
    pub async fn wait_withheld(&self, count: usize, wanted: impl Fn(&EventEntry) -> bool) -> Result<()> {
        let withheld =
            |event: &EventEntry| event.fate == Fate::Withheld && event.namespace == self.ns && wanted(event);
        testbed::harness::wait::until(format!("{count} withheld events"), TIMEOUT, || async {
            let seen = self.proxy.journal().events(withheld).map_err(|error| error.to_string())?.len();
            if seen >= count { Ok(()) } else { Err(format!("{seen} so far")) }
        })
        .await
    }
}

/// Creates a client through the proxy without retries.
pub async fn client(proxy: &FaultProxy, user: &User, agent: &str) -> Result<Client> {
    let mut config = user.at(proxy.url()).config().await?;
    config.default_retry = false;
    config.headers.push((http::header::USER_AGENT, agent.parse().expect("a user agent")));
    Ok(Client::try_from(config)?)
}

pub fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    }
}

pub fn map_with(name: &str, value: &str) -> ConfigMap {
    ConfigMap { data: Some([("value".to_owned(), value.to_owned())].into()), ..map(name) }
}

pub fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("value")).map_or("", String::as_str)
}

/// Matches requests for ConfigMaps.
pub fn config_maps() -> RequestMatcher {
    RequestMatcher::any().resource(Resource::of::<ConfigMap>())
}

pub async fn create(api: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, kube::Error> {
    api.create(&PostParams::default(), &map(name)).await
}

/// Sets the value of a map unconditionally.
pub async fn set(api: &Api<ConfigMap>, name: &str, value: &str) -> Result<ConfigMap, kube::Error> {
    api.patch(name, &Default::default(), &kube::api::Patch::Merge(map_with(name, value))).await
}

/// Applies the default timeout.
pub async fn with_timeout<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(TIMEOUT, future).await.map_err(|_| testbed::Error::Deadline {
        what: what.into(),
        limit: TIMEOUT,
        last: "nothing received".into(),
    })
}

/// An open watch on ConfigMaps.
pub struct Watch(Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Send>>);

impl Watch {
    /// Starts a watch; returns when the response head has arrived.
    pub async fn on(api: &Api<ConfigMap>, version: &str) -> kube::Result<Self> {
        Ok(Self(Box::pin(
            api.watch(&WatchParams::default().timeout(120).disable_bookmarks(), version).await?,
        )))
    }

    /// Returns the next event; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<kube::Result<WatchEvent<ConfigMap>>>> {
        with_timeout("next watch event", self.0.next()).await
    }

    /// Returns the next event in short form: `+name`, `~name` or `-name`, with `=value` if the map has one.
    pub async fn next_short(&mut self) -> Result<String> {
        let short = |sign: &str, map: &ConfigMap| match value(map) {
            "" => format!("{sign}{}", map.name_any()),
            value => format!("{sign}{}={value}", map.name_any()),
        };
        match self.next().await? {
            Some(Ok(WatchEvent::Added(map))) => Ok(short("+", &map)),
            Some(Ok(WatchEvent::Modified(map))) => Ok(short("~", &map)),
            Some(Ok(WatchEvent::Deleted(map))) => Ok(short("-", &map)),
            other => Err(testbed::Error::Other(format!("unexpected {other:?}"))),
        }
    }

    /// True if nothing arrives, not even the end.
    pub async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(QUIET, self.0.next()).await.is_err()
    }

    /// Returns the error that the watch breaks with.
    pub async fn expect_broken(&mut self) -> Result<kube::Error> {
        match self.next().await? {
            Some(Err(error)) => Ok(error),
            other => Err(testbed::Error::Other(format!("watch did not break: {other:?}"))),
        }
    }
}

/// True if the connection was reset and not merely closed.
pub fn is_reset(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| (**error).source());
    causes.any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionReset)
    })
}

/// Returns the `Status` of an API error.
pub fn status(error: kube::Error) -> Result<kube::core::Status> {
    match error {
        kube::Error::Api(status) => Ok(*status),
        other => Err(testbed::Error::Other(format!("not an API error: {other:?}"))),
    }
}
