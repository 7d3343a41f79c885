//! Logs with a level that can be changed at runtime, and traces exported by OTLP.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

/// Timeout of exporting a batch of traces, and of the final flush.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(3);

/// The log format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line, with stable keys.
    #[default]
    Json,
    /// Human-readable text.
    Pretty,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "pretty" => Ok(Self::Pretty),
            other => Err(format!("invalid log format {other:?}: use json or pretty")),
        }
    }
}

/// The log level of a running process.
#[derive(Clone)]
pub struct LogLevel {
    handle: Arc<Handle<EnvFilter, Registry>>,
}

impl LogLevel {
    /// Changes the level: `info`, or per module `info,kube=debug`. An invalid value changes nothing.
    pub fn set(&self, directives: &str) -> Result<(), String> {
        let filter = parse(directives)?;
        self.handle.reload(filter).map_err(|error| error.to_string())
    }

    /// Returns the current level.
    #[must_use]
    pub fn current(&self) -> String {
        self.handle.with_current(ToString::to_string).unwrap_or_default()
    }
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogLevel").field(&self.current()).finish()
    }
}

/// The configuration of logs and traces.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// The log format.
    pub format: Format,
    /// The initial log level.
    pub level: &'a str,
    /// OTLP/gRPC endpoint for traces, like `http://collector:4317`. If unset, traces are not exported.
    pub otlp_endpoint: Option<&'a str>,
    /// The service name in traces.
    pub service: &'a str,
}

/// The telemetry of this process, from [`start`] to [`shutdown`](Self::shutdown).
#[derive(Debug)]
pub struct Telemetry {
    level: LogLevel,
    traces: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// Returns a handle that changes the log level.
    #[must_use]
    pub fn log_level(&self) -> LogLevel {
        self.level.clone()
    }

    /// Returns telemetry that is not connected to the global subscriber.
    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        let (_, handle) = reload::Layer::new(EnvFilter::new("off"));
        Self { level: LogLevel { handle: Arc::new(handle) }, traces: None }
    }

    /// Flushes pending traces. Gives up after a timeout.
    pub async fn shutdown(self) {
        let Some(traces) = self.traces else { return };
        // The shutdown blocks, so it must not run on a tokio worker. A join error means that the runtime is shutting down.
        let flushed = tokio::task::spawn_blocking(move || traces.shutdown_with_timeout(EXPORT_TIMEOUT)).await;
        if let Ok(Err(error)) = flushed {
            tracing::warn!(%error, "failed to flush traces");
        }
    }
}

/// Starts logging to standard error, and exporting traces if an endpoint is set. Must be called within a tokio runtime.
pub fn start(options: &Options<'_>) -> Result<Telemetry, String> {
    let (filter, handle) = reload::Layer::new(parse(options.level)?);
    let logs = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let logs: Box<dyn Layer<Registry> + Send + Sync> = match options.format {
        Format::Json => logs.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed(),
        Format::Pretty => logs.with_filter(filter).boxed(),
    };
    let traces =
        options.otlp_endpoint.map(|endpoint| tracer_provider(endpoint, options.service)).transpose()?;
    // Spans of libraries are below INFO and are not exported.
    let spans = traces.as_ref().map(|provider| {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("outrigger"))
            .with_filter(LevelFilter::INFO)
    });
    tracing_subscriber::registry().with(logs).with(spans).try_init().map_err(|error| error.to_string())?;
    Ok(Telemetry { level: LogLevel { handle: Arc::new(handle) }, traces })
}

fn tracer_provider(endpoint: &str, service: &str) -> Result<SdkTracerProvider, String> {
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(EXPORT_TIMEOUT)
        .build()
        .map_err(|error| format!("invalid --otlp-endpoint {endpoint:?}: {error}"))?;
    let resource = Resource::builder().with_service_name(service.to_owned()).build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

fn parse(level: &str) -> Result<EnvFilter, String> {
    if level.is_empty() {
        return Err("empty log level: use one like info, or info,kube=debug".into());
    }
    EnvFilter::try_new(level).map_err(|error| {
        format!("invalid log level {level:?} ({error}): use one like info, or info,kube=debug")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_log_level_is_rejected_with_an_example() {
        for bad in ["", "loud=very", "info,=="] {
            let error = parse(bad).err().unwrap_or_default();
            assert!(error.contains("use one like info, or info,kube=debug"), "{bad:?}: {error}");
        }
        assert!(parse("info,kube=debug").is_ok());
    }
}
