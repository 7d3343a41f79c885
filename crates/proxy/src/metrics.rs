//! What the proxy counts. Everything that a request touches is looked up once, at the start.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use runtime::metrics::Metrics;

use crate::outcome::Outcome;
use crate::reviews::Review;

runtime::catalogue! {
    /// Every metric of the proxy, in the order of the documentation.
    METRICS;
    REQUESTS: Counter "outrigger_proxy_requests_total" ["decision", "reason"] "Requests, by what was decided and why";
    IN_FLIGHT: Gauge "outrigger_proxy_requests_in_flight" [] "Requests that are being served now";
    CONNECTIONS: Gauge "outrigger_proxy_connections" [] "Connections of clients that are open now";
    STRIPPED: Counter "outrigger_proxy_identity_headers_stripped_total" [] "Requests that came with identity headers of their own, which were removed";
    UPSTREAM_TIME: Histogram "outrigger_proxy_upstream_duration_seconds" [] "Time until the head of the upstream's answer";
    UPSTREAM_CONNECTIONS: Counter "outrigger_proxy_upstream_connections_total" ["result"] "Connections to the upstream: opened, failed, or found dead when they were to be used again";
    UPSTREAM_WAITS: Counter "outrigger_proxy_upstream_waits_total" [] "Requests that waited, for 100 ms at most, because many others were under way to the upstream";
    REVIEWS: Counter "outrigger_proxy_reviews_total" ["review", "result"] "Questions to the API server, by result: answered, refused, unreachable or timeout";
    REVIEW_TIME: Histogram "outrigger_proxy_review_duration_seconds" ["review"] "Time that the API server took for one try";
    LOOKUPS: Counter "outrigger_proxy_cache_lookups_total" ["cache", "result"] "Looks into caches: hit, miss, or joined when the same was being asked already";
    CACHE_ENTRIES: Gauge "outrigger_proxy_cache_entries" ["cache"] "Entries of caches";
    CACHE_BYTES: Gauge "outrigger_proxy_cache_bytes" ["cache"] "Bytes of caches, about";
    CACHE_EVICTIONS: Gauge "outrigger_proxy_cache_evictions" ["cache"] "Entries that were dropped to make room, since the start";
    RELOADS: Counter "outrigger_proxy_reloads_total" ["file", "result"] "Times that a file had changed: loaded, or refused and the old one kept";
    RELOADED: Gauge "outrigger_proxy_reload_timestamp_seconds" ["file"] "When what is in use was loaded, in seconds since 1970";
}

/// Seconds, from a cached answer to a stream that hangs.
const TIMES: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// A cache, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheName {
    /// Owners of tokens.
    Tokens,
    /// Tokens that are bad.
    BadTokens,
    /// Decisions.
    Decisions,
}

impl CacheName {
    const ALL: [Self; 3] = [Self::Tokens, Self::BadTokens, Self::Decisions];

    fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::BadTokens => "bad_tokens",
            Self::Decisions => "decisions",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByDecision {
    decision: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReview {
    review: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKind {
    review: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLookup {
    cache: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCache {
    cache: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByReload {
    file: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByFile {
    file: &'static str,
}

type Times<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of the proxy.
#[derive(Clone, Debug)]
pub(crate) struct ProxyMetrics {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    requests: Vec<Counter>,
    in_flight: Gauge,
    connections: Gauge,
    stripped: Counter,
    upstream_time: Histogram,
    upstream_connections: Family<ByResult, Counter>,
    upstream_waits: Counter,
    reviews: Family<ByReview, Counter>,
    review_time: Times<ByKind>,
    hits: Vec<Counter>,
    misses: Vec<Counter>,
    joins: Vec<Counter>,
    cache_entries: Family<ByCache, Gauge>,
    cache_bytes: Family<ByCache, Gauge>,
    cache_evictions: Family<ByCache, Gauge>,
    reloads: Family<ByReload, Counter>,
    reloaded: Family<ByFile, Gauge>,
}

impl ProxyMetrics {
    /// All of them, registered.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let requests = Family::<ByDecision, Counter>::default();
        let lookups = Family::<ByLookup, Counter>::default();
        let looks = |result: &'static str| {
            CacheName::ALL
                .iter()
                .map(|cache| lookups.get_or_create_owned(&ByLookup { cache: cache.name(), result }))
                .collect()
        };
        let outcome = |outcome: &Outcome| {
            let labels = ByDecision { decision: outcome.decision(), reason: outcome.reason() };
            requests.get_or_create_owned(&labels)
        };
        let inner = Inner {
            requests: Outcome::ALL.iter().map(outcome).collect(),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            stripped: Counter::default(),
            upstream_time: Histogram::new(TIMES),
            upstream_connections: Family::default(),
            upstream_waits: Counter::default(),
            reviews: Family::default(),
            review_time: Family::new_with_constructor(|| Histogram::new(TIMES)),
            hits: looks("hit"),
            misses: looks("miss"),
            joins: looks("joined"),
            cache_entries: Family::default(),
            cache_bytes: Family::default(),
            cache_evictions: Family::default(),
            reloads: Family::default(),
            reloaded: Family::default(),
        };
        metrics.register(&REQUESTS, requests);
        metrics.register(&IN_FLIGHT, inner.in_flight.clone());
        metrics.register(&CONNECTIONS, inner.connections.clone());
        metrics.register(&STRIPPED, inner.stripped.clone());
        metrics.register(&UPSTREAM_TIME, inner.upstream_time.clone());
        metrics.register(&UPSTREAM_CONNECTIONS, inner.upstream_connections.clone());
        metrics.register(&UPSTREAM_WAITS, inner.upstream_waits.clone());
        metrics.register(&REVIEWS, inner.reviews.clone());
        metrics.register(&REVIEW_TIME, inner.review_time.clone());
        metrics.register(&LOOKUPS, lookups);
        metrics.register(&CACHE_ENTRIES, inner.cache_entries.clone());
        metrics.register(&CACHE_BYTES, inner.cache_bytes.clone());
        metrics.register(&CACHE_EVICTIONS, inner.cache_evictions.clone());
        metrics.register(&RELOADS, inner.reloads.clone());
        metrics.register(&RELOADED, inner.reloaded.clone());
        Self { inner: Arc::new(inner) }
    }

    /// A request ended.
    pub(crate) fn ended(&self, outcome: Outcome) {
        if let Some(counter) = self.inner.requests.get(outcome as usize) {
            counter.inc();
        }
    }

    /// Requests that are being served now.
    pub(crate) fn in_flight(&self) -> &Gauge {
        &self.inner.in_flight
    }

    /// Connections of clients that are open now.
    pub(crate) fn connections(&self) -> &Gauge {
        &self.inner.connections
    }

    /// A request came with identity headers of its own.
    pub(crate) fn stripped(&self) {
        self.inner.stripped.inc();
    }

    /// The upstream's answer began after so long.
    pub(crate) fn upstream_took(&self, time: Duration) {
        self.inner.upstream_time.observe(time.as_secs_f64());
    }

    /// A connection to the upstream.
    pub(crate) fn upstream_connection(&self, result: &'static str) {
        self.inner.upstream_connections.get_or_create(&ByResult { result }).inc();
    }

    /// A request waited for others that were under way to the upstream.
    pub(crate) fn upstream_wait(&self) {
        self.inner.upstream_waits.inc();
    }

    /// The API server was asked, with this result.
    pub(crate) fn reviewed(&self, review: Review, result: &'static str) {
        self.inner.reviews.get_or_create(&ByReview { review: review.name(), result }).inc();
    }

    /// One try took so long.
    pub(crate) fn review_took(&self, review: Review, time: Duration) {
        self.inner.review_time.get_or_create(&ByKind { review: review.name() }).observe(time.as_secs_f64());
    }

    /// A look into a cache.
    pub(crate) fn looked_up(&self, cache: CacheName, hit: bool) {
        let counters = if hit { &self.inner.hits } else { &self.inner.misses };
        Self::of(counters, cache);
    }

    /// Somebody waits for an answer that another one asked for.
    pub(crate) fn joined(&self, cache: CacheName) {
        Self::of(&self.inner.joins, cache);
    }

    fn of(counters: &[Counter], cache: CacheName) {
        if let Some(counter) = counters.get(cache as usize) {
            counter.inc();
        }
    }

    /// How large a cache is.
    pub(crate) fn cache_is(&self, cache: CacheName, (entries, bytes): (usize, usize), evictions: u64) {
        let labels = ByCache { cache: cache.name() };
        let set = |family: &Family<ByCache, Gauge>, value: i64| {
            family.get_or_create(&labels).set(value);
        };
        set(&self.inner.cache_entries, i64::try_from(entries).unwrap_or(i64::MAX));
        set(&self.inner.cache_bytes, i64::try_from(bytes).unwrap_or(i64::MAX));
        set(&self.inner.cache_evictions, i64::try_from(evictions).unwrap_or(i64::MAX));
    }

    /// A file had changed.
    pub(crate) fn reloaded(&self, file: &'static str, good: bool) {
        let result = if good { "loaded" } else { "refused" };
        self.inner.reloads.get_or_create(&ByReload { file, result }).inc();
        if good {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let labels = ByFile { file };
            self.inner.reloaded.get_or_create(&labels).set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_registered_is_what_is_described() {
        let metrics = Metrics::new();
        let these = ProxyMetrics::new(&metrics);
        these.ended(Outcome::Allowed);
        these.upstream_took(Duration::from_millis(1));
        these.upstream_connection("opened");
        these.reviewed(Review::Token, "answered");
        these.review_took(Review::Access, Duration::from_millis(1));
        these.looked_up(CacheName::Tokens, true);
        these.joined(CacheName::Decisions);
        these.cache_is(CacheName::BadTokens, (1, 2), 3);
        these.reloaded("serving certificate", true);
        let text = metrics.text();
        for described in METRICS {
            let sample = text
                .lines()
                .find(|line| {
                    let rest = line.strip_prefix(described.name);
                    rest.is_some_and(|rest| rest.starts_with(['{', ' ', '_']))
                })
                .unwrap_or_else(|| panic!("{} is not in\n{text}", described.name));
            for label in described.labels {
                assert!(sample.contains(&format!("{label}=\"")), "{sample} lacks {label}");
            }
        }
        let types = text.lines().filter(|line| line.starts_with("# TYPE outrigger_proxy_")).count();
        assert_eq!(types, METRICS.len(), "nothing is registered that is not described");
        assert!(
            text.contains(r#"outrigger_proxy_requests_total{decision="allowed",reason="authorized"} 1"#),
            "{text}"
        );
    }
}
