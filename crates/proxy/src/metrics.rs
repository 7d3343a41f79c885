//! Metrics of the proxy. Counters on the request path are resolved once at startup.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use runtime::metrics::Metrics;

use crate::outcome::Outcome;
use crate::reviews::ReviewKind;

runtime::catalog! {
    /// Every metric of the proxy, in documentation order.
    METRICS;
    REQUESTS: Counter "outrigger_proxy_requests_total" ["decision", "reason"] "Requests by decision and reason";
    IN_FLIGHT: Gauge "outrigger_proxy_requests_in_flight" [] "Requests in flight";
    CONNECTIONS: Gauge "outrigger_proxy_connections" [] "Open client connections";
    OVERFLOW: Counter "outrigger_proxy_overflow_connections_total" ["result"] "Connections above --max-connections by result: opened, or closed to make room for a newer one";
    STRIPPED: Counter "outrigger_proxy_identity_headers_stripped_total" [] "Requests whose client-supplied identity headers were removed";
    UPSTREAM_TIME: Histogram "outrigger_proxy_upstream_duration_seconds" [] "Time until the upstream's response headers arrived";
    UPSTREAM_CONNECTIONS: Counter "outrigger_proxy_upstream_connections_total" ["result"] "Upstream connections by result: opened, failed, or dead (closed by the upstream when reused)";
    UPSTREAM_WAITS: Counter "outrigger_proxy_upstream_waits_total" [] "Requests delayed, by at most 100 ms, because the upstream concurrency limit was reached";
    REVIEWS: Counter "outrigger_proxy_reviews_total" ["review", "result"] "TokenReviews and SubjectAccessReviews by result: answered, refused, unreachable or timeout";
    REVIEW_TIME: Histogram "outrigger_proxy_review_duration_seconds" ["review"] "Duration of one review request to the API server";
    LOOKUPS: Counter "outrigger_proxy_cache_lookups_total" ["cache", "result"] "Cache lookups by result: hit, miss, or joined (an identical review was already in flight)";
    CACHE_ENTRIES: Gauge "outrigger_proxy_cache_entries" ["cache"] "Entries in the cache";
    CACHE_BYTES: Gauge "outrigger_proxy_cache_bytes" ["cache"] "Approximate size of the cache in bytes";
    CACHE_EVICTIONS: Gauge "outrigger_proxy_cache_evictions" ["cache"] "Entries evicted to make room since startup";
    RELOADS: Counter "outrigger_proxy_reloads_total" ["file", "result"] "File reloads by result: loaded, or refused (the previous content stays in use)";
    RELOADED: Gauge "outrigger_proxy_reload_timestamp_seconds" ["file"] "Unix time at which the content in use was loaded";
}

/// Buckets in seconds, from a cached response to a stalled stream.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// A cache, as labeled in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheName {
    /// Users by token.
    Tokens,
    /// Rejected tokens.
    BadTokens,
    /// Authorization decisions.
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

type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

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
    overflow: Family<ByResult, Counter>,
    stripped: Counter,
    upstream_time: Histogram,
    upstream_connections: Family<ByResult, Counter>,
    upstream_waits: Counter,
    reviews: Family<ByReview, Counter>,
    review_time: HistogramFamily<ByKind>,
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
    /// Creates the metrics and registers them.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let requests = Family::<ByDecision, Counter>::default();
        let lookups = Family::<ByLookup, Counter>::default();
        let lookup_counters = |result: &'static str| {
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
            overflow: Family::default(),
            stripped: Counter::default(),
            upstream_time: Histogram::new(BUCKETS),
            upstream_connections: Family::default(),
            upstream_waits: Counter::default(),
            reviews: Family::default(),
            review_time: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            hits: lookup_counters("hit"),
            misses: lookup_counters("miss"),
            joins: lookup_counters("joined"),
            cache_entries: Family::default(),
            cache_bytes: Family::default(),
            cache_evictions: Family::default(),
            reloads: Family::default(),
            reloaded: Family::default(),
        };
        metrics.register(&REQUESTS, requests);
        metrics.register(&IN_FLIGHT, inner.in_flight.clone());
        metrics.register(&CONNECTIONS, inner.connections.clone());
        metrics.register(&OVERFLOW, inner.overflow.clone());
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

    /// Counts a finished request.
    pub(crate) fn record_outcome(&self, outcome: Outcome) {
        if let Some(counter) = self.inner.requests.get(outcome as usize) {
            counter.inc();
        }
    }

    /// Requests in flight.
    pub(crate) fn in_flight(&self) -> &Gauge {
        &self.inner.in_flight
    }

    /// Open client connections.
    pub(crate) fn connections(&self) -> &Gauge {
        &self.inner.connections
    }

    /// Counts a connection above the limit, or its eviction.
    pub(crate) fn record_overflow(&self, result: &'static str) {
        self.inner.overflow.get_or_create(&ByResult { result }).inc();
    }

    /// Counts a request whose identity headers were removed.
    pub(crate) fn record_stripped(&self) {
        self.inner.stripped.inc();
    }

    /// Observes the time until the upstream's response headers.
    pub(crate) fn observe_upstream(&self, time: Duration) {
        self.inner.upstream_time.observe(time.as_secs_f64());
    }

    /// Counts a connection attempt or a dead connection.
    pub(crate) fn record_upstream_connection(&self, result: &'static str) {
        self.inner.upstream_connections.get_or_create(&ByResult { result }).inc();
    }

    /// Counts a request that waited for the upstream concurrency limit.
    pub(crate) fn record_upstream_wait(&self) {
        self.inner.upstream_waits.inc();
    }

    /// Counts a review.
    pub(crate) fn record_review(&self, review: ReviewKind, result: &'static str) {
        self.inner.reviews.get_or_create(&ByReview { review: review.name(), result }).inc();
    }

    /// Observes the duration of one review request.
    pub(crate) fn observe_review(&self, review: ReviewKind, time: Duration) {
        self.inner.review_time.get_or_create(&ByKind { review: review.name() }).observe(time.as_secs_f64());
    }

    /// Counts a cache lookup.
    pub(crate) fn record_lookup(&self, cache: CacheName, hit: bool) {
        let counters = if hit { &self.inner.hits } else { &self.inner.misses };
        Self::increment(counters, cache);
    }

    /// Counts a request that joined a lookup in flight.
    pub(crate) fn record_joined(&self, cache: CacheName) {
        Self::increment(&self.inner.joins, cache);
    }

    fn increment(counters: &[Counter], cache: CacheName) {
        if let Some(counter) = counters.get(cache as usize) {
            counter.inc();
        }
    }

    /// Sets the size of a cache.
    pub(crate) fn set_cache_size(&self, cache: CacheName, (entries, bytes): (usize, usize), evictions: u64) {
        let labels = ByCache { cache: cache.name() };
        let set = |family: &Family<ByCache, Gauge>, value: i64| {
            family.get_or_create(&labels).set(value);
        };
        set(&self.inner.cache_entries, i64::try_from(entries).unwrap_or(i64::MAX));
        set(&self.inner.cache_bytes, i64::try_from(bytes).unwrap_or(i64::MAX));
        set(&self.inner.cache_evictions, i64::try_from(evictions).unwrap_or(i64::MAX));
    }

    /// Counts a reload of a file.
    pub(crate) fn record_reload(&self, file: &'static str, is_loaded: bool) {
        let result = if is_loaded { "loaded" } else { "refused" };
        self.inner.reloads.get_or_create(&ByReload { file, result }).inc();
        if is_loaded {
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
    fn registered_metrics_match_the_catalog() {
        let metrics = Metrics::new();
        let proxy = ProxyMetrics::new(&metrics);
        proxy.record_outcome(Outcome::Allowed);
        proxy.observe_upstream(Duration::from_millis(1));
        proxy.record_upstream_connection("opened");
        proxy.record_overflow("opened");
        proxy.record_review(ReviewKind::Token, "answered");
        proxy.observe_review(ReviewKind::Access, Duration::from_millis(1));
        proxy.record_lookup(CacheName::Tokens, true);
        proxy.record_joined(CacheName::Decisions);
        proxy.set_cache_size(CacheName::BadTokens, (1, 2), 3);
        proxy.record_reload("serving certificate", true);
        let text = metrics.encode();
        assert_eq!(
            runtime::metrics::catalog::differences(METRICS, "outrigger_proxy_", &text),
            Vec::<String>::new()
        );
        assert!(
            text.contains(r#"outrigger_proxy_requests_total{decision="allowed",reason="authorized"} 1"#),
            "{text}"
        );
    }
}
