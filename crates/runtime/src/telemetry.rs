//! Logs, for people or for machines, with a level that can be changed while the process runs; and traces, if somebody
//! collects them.

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

/// How long a collector may take for a batch of traces.
const FLUSH_WITHIN: Duration = Duration::from_secs(3);

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line, with stable keys.
    #[default]
    Json,
    /// For people.
    Pretty,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "json" => Ok(Self::Json),
            "pretty" => Ok(Self::Pretty),
            other => Err(format!("{other:?} is no log format: json or pretty")),
        }
    }
}

/// The level of a running process's logs.
#[derive(Clone)]
pub struct LogLevel {
    handle: Arc<Handle<EnvFilter, Registry>>,
}

impl LogLevel {
    /// Changes it: `info`, or by module like `info,kube=debug`. What cannot be read changes nothing.
    pub fn set(&self, wanted: &str) -> Result<(), String> {
        let filter = parse(wanted)?;
        self.handle.reload(filter).map_err(|error| error.to_string())
    }

    /// As it is now.
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

/// What is told, how and to whom.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    /// How log lines look.
    pub format: Format,
    /// Which are written at first.
    pub level: &'a str,
    /// Where traces go (OTLP over gRPC, like `http://collector:4317`); nowhere when not given.
    pub traces_to: Option<&'a str>,
    /// The name that traces carry: the role of this process.
    pub service: &'a str,
}

/// The telemetry of this process, from [`start`] to [`end`](Self::end).
#[derive(Debug)]
pub struct Telemetry {
    level: LogLevel,
    traces: Option<SdkTracerProvider>,
}

impl Telemetry {
    /// The level of its logs, to be changed while it runs.
    #[must_use]
    pub fn level(&self) -> LogLevel {
        self.level.clone()
    }

    /// Sends the traces that have not gone yet. A collector that does not answer is not waited for.
    pub async fn end(self) {
        let Some(traces) = self.traces else { return };
        // It blocks. It cannot panic, and a runtime that is ending already has nothing to tell.
        let ended = tokio::task::spawn_blocking(move || traces.shutdown_with_timeout(FLUSH_WITHIN)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// Sends this process's logs to standard error from here on, and its traces to a collector if one is given. Call it within
/// the tokio runtime.
pub fn start(options: &Options<'_>) -> Result<Telemetry, String> {
    let (filter, handle) = reload::Layer::new(parse(options.level)?);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match options.format {
        Format::Json => lines.json().flatten_event(true).with_span_list(false).with_filter(filter).boxed(),
        Format::Pretty => lines.with_filter(filter).boxed(),
    };
    let traces = options.traces_to.map(|address| provider(address, options.service)).transpose()?;
    // Spans of libraries are below this level: they tell how, not what.
    let spans = traces.as_ref().map(|provider| {
        tracing_opentelemetry::layer()
            .with_tracer(provider.tracer("outrigger"))
            .with_filter(LevelFilter::INFO)
    });
    tracing_subscriber::registry().with(lines).with(spans).try_init().map_err(|error| error.to_string())?;
    Ok(Telemetry { level: LogLevel { handle: Arc::new(handle) }, traces })
}

fn provider(address: &str, service: &str) -> Result<SdkTracerProvider, String> {
    let refused =
        |error: &dyn fmt::Display| format!("traces cannot go to {address:?} (--otlp-endpoint): {error}");
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(address)
        .with_timeout(FLUSH_WITHIN)
        .build()
        .map_err(|error| refused(&error))?;
    let resource = Resource::builder().with_service_name(service.to_owned()).build();
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build())
}

fn parse(level: &str) -> Result<EnvFilter, String> {
    if level.is_empty() {
        return Err("an empty log level: use one like info, or info,kube=debug".into());
    }
    EnvFilter::try_new(level).map_err(|error| {
        format!("{level:?} is no log level ({error}): use one like info, or info,kube=debug")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_level_is_refused_with_an_example() {
        for bad in ["", "loud=very", "info,=="] {
            let error = parse(bad).err().unwrap_or_default();
            assert!(error.contains("use one like info, or info,kube=debug"), "{bad:?}: {error}");
        }
        assert!(parse("info,kube=debug").is_ok());
    }
}
