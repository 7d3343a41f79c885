//! What every test of the proxy begins with, and how it looks at watches.

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
use testbed::faults::fault_proxy::{FaultProxy, Matching, Resource};
use testbed::{Context, ControlPlane, Result};

/// Everything here takes milliseconds; only a machine that is very busy comes near this.
pub const SOON: Duration = Duration::from_secs(20);

/// Long enough for an event that is on its way to arrive: each look at it is backed by the journal, which says that the
/// event has reached the proxy.
const QUIET: Duration = Duration::from_millis(150);

/// A proxy before the shared control plane, and a namespace of the test's own behind it.
pub struct Bench<'a> {
    pub plane: &'a ControlPlane,
    pub proxy: FaultProxy,
    pub ns: String,
    /// Past the proxy.
    pub direct: Api<ConfigMap>,
    /// Through the proxy, without retries: what the client sees is what the fault did.
    pub maps: Api<ConfigMap>,
}

impl<'a> Bench<'a> {
    pub async fn of(cx: &'a Context) -> Result<Self> {
        let plane = cx.control_plane().await?;
        let ns = cx.namespace().await?;
        std::fs::create_dir_all(cx.logs())
            .map_err(|source| testbed::Error::Io { what: "logs".into(), source })?;
        let proxy = FaultProxy::recorded_in(plane, cx.logs().join("fault-proxy.jsonl")).await?;
        let direct = Api::namespaced(plane.client().await?, &ns);
        let maps = Api::namespaced(client(&proxy, plane.admin(), cx.name()).await?, &ns);
        Ok(Self { plane, proxy, ns, direct, maps })
    }

    /// Another client of the same namespace through the proxy.
    pub async fn maps_of(&self, user: &User, agent: &str) -> Result<Api<ConfigMap>> {
        Ok(Api::namespaced(client(&self.proxy, user, agent).await?, &self.ns))
    }

    /// Names of the maps that are really there, past the proxy and its faults.
    pub async fn there(&self) -> Result<Vec<String>> {
        let list = self.direct.list(&Default::default()).await?;
        Ok(list.iter().map(ResourceExt::name_any).collect())
    }

    /// Waits until the proxy has withheld that many events of this test's namespace that `wanted` accepts.
    pub async fn wait_withheld(&self, count: usize, wanted: impl Fn(&EventEntry) -> bool) -> Result<()> {
        let withheld =
            |event: &EventEntry| event.fate == Fate::Withheld && event.namespace == self.ns && wanted(event);
        testbed::harness::wait::until(format!("{count} withheld events"), SOON, || async {
            let seen = self.proxy.journal().events(withheld).map_err(|error| error.to_string())?.len();
            if seen >= count { Ok(()) } else { Err(format!("{seen} so far")) }
        })
        .await
    }
}

/// A client through the proxy that tries everything once.
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

/// Requests for ConfigMaps.
pub fn of_maps() -> Matching {
    Matching::any().resource(Resource::of::<ConfigMap>())
}

pub async fn create(api: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, kube::Error> {
    api.create(&PostParams::default(), &map(name)).await
}

/// Replaces the value of a map, whatever it is.
pub async fn set(api: &Api<ConfigMap>, name: &str, value: &str) -> Result<ConfigMap, kube::Error> {
    api.patch(name, &Default::default(), &kube::api::Patch::Merge(map_with(name, value))).await
}

/// A deadline for what must happen soon.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(SOON, future).await.map_err(|_| testbed::Error::Deadline {
        what: what.into(),
        limit: SOON,
        last: "nothing came".into(),
    })
}

/// An open watch on ConfigMaps.
pub struct Watch(Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Send>>);

impl Watch {
    /// Begins a watch; returns when the API server, or what stands for it, has answered.
    pub async fn on(api: &Api<ConfigMap>, version: &str) -> kube::Result<Self> {
        Ok(Self(Box::pin(
            api.watch(&WatchParams::default().timeout(120).disable_bookmarks(), version).await?,
        )))
    }

    /// The next event, or its end.
    pub async fn next(&mut self) -> Result<Option<kube::Result<WatchEvent<ConfigMap>>>> {
        soon("the next event of a watch", self.0.next()).await
    }

    /// The next event in short: `+name`, `~name` or `-name`, with `=value` for a map that has one.
    pub async fn told(&mut self) -> Result<String> {
        let short = |sign: &str, map: &ConfigMap| match value(map) {
            "" => format!("{sign}{}", map.name_any()),
            value => format!("{sign}{}={value}", map.name_any()),
        };
        match self.next().await? {
            Some(Ok(WatchEvent::Added(map))) => Ok(short("+", &map)),
            Some(Ok(WatchEvent::Modified(map))) => Ok(short("~", &map)),
            Some(Ok(WatchEvent::Deleted(map))) => Ok(short("-", &map)),
            other => Err(testbed::Error::Refused(format!("the watch gave {other:?}"))),
        }
    }

    /// True when nothing comes, not even an end.
    pub async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(QUIET, self.0.next()).await.is_err()
    }

    /// The error that it breaks with.
    pub async fn broken(&mut self) -> Result<kube::Error> {
        match self.next().await? {
            Some(Err(error)) => Ok(error),
            other => Err(testbed::Error::Refused(format!("the watch did not break: {other:?}"))),
        }
    }
}

/// True when the client saw the connection being reset, and not merely closed.
pub fn is_reset(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error| (**error).source());
    causes.any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionReset)
    })
}

/// The `Status` that the client was given.
pub fn status(error: kube::Error) -> Result<kube::core::Status> {
    match error {
        kube::Error::Api(status) => Ok(*status),
        other => Err(testbed::Error::Refused(format!("not a refusal: {other:?}"))),
    }
}
