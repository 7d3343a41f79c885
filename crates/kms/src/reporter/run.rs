//! The reporter's process. Once the settings are valid, only a signal ends it: its container runs before that of an API server, and must
//! not keep the API server from starting.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use plan::kms::cadence;
use plan::kms::pace::{CompletedWrite, WritePacer};
use plan::kms::publication::ChangeDetector;
use runtime::admin::{Admin, BoundAdmin};
use runtime::metrics::Metrics;
use runtime::shutdown::ShutdownSignals;
use runtime::tasks::{Phase, Tasks};
use runtime::telemetry::{self, Options};
use tokio_util::sync::CancellationToken;

use super::metrics::ReporterMetrics;
use super::probes::Plugins;
use super::publish::{Outcome, PublishOptions, Published, Publisher};
use super::settings::Settings;

/// Delay before binding an address again.
const BIND_RETRY: Duration = Duration::from_secs(10);

/// Why the reporter failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Logging could not be set up.
    #[error("--log-level: {0}")]
    Telemetry(String),
    /// Signal handlers could not be installed.
    #[error("installing signal handlers: {0}")]
    Signals(#[from] std::io::Error),
    /// A task ended unexpectedly.
    #[error(transparent)]
    Tasks(#[from] runtime::tasks::Error),
}

/// Runs the reporter until it receives SIGTERM or SIGINT.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let telemetry = telemetry::start(&Options {
        format: settings.log_format,
        level: &settings.log_level,
        otlp_endpoint: None,
        service: "outrigger-kms-reporter",
    })
    .map_err(Error::Telemetry)?;
    let signals = ShutdownSignals::register()?;
    log_settings(&settings);
    let metrics = Metrics::new();
    let reporter_metrics = ReporterMetrics::new(&metrics);
    let mut tasks = Tasks::new();
    let admin = Admin::new(&metrics, Some(telemetry.log_level()));
    if let Some(address) = settings.metrics {
        let (admin, stop) = (admin.clone(), tasks.stop_token(Phase::Background));
        let bind = move || admin.clone().bind(address);
        tasks.spawn(Phase::Background, "metrics", serve("metrics", address, bind, stop));
    }
    if let Some(address) = settings.admin {
        let stop = tasks.stop_token(Phase::Background);
        let bind = move || admin.clone().bind_admin(address);
        tasks.spawn(Phase::Background, "admin", serve("admin", address.into(), bind, stop));
    }
    let publisher = Publisher::new(&settings, &metrics);
    let plugins = Plugins::new(&settings, &reporter_metrics);
    let rounds = run_rounds(settings, plugins, publisher, reporter_metrics);
    // Pending calls are dropped on shutdown: neither a plugin nor an API server may delay it.
    tasks.spawn_until_stopped(Phase::Intake, "rounds", rounds);
    let result = tasks.run_until(first_signal(signals)).await;
    telemetry.shutdown().await;
    Ok(result?)
}

fn log_settings(settings: &Settings) {
    let Settings {
        sockets,
        read_timeout,
        write_timeout,
        deep_probe_interval,
        publication,
        manager,
        servers,
        ..
    } = settings;
    let sockets: Vec<String> = sockets.iter().map(|socket| socket.path.display().to_string()).collect();
    let (_, kind) = publication.target.api_version_and_kind();
    tracing::info!(
        ?sockets,
        interval = ?publication.interval,
        ?read_timeout,
        ?write_timeout,
        ?deep_probe_interval,
        node = publication.node,
        format = ?publication.format,
        kind,
        name = publication.name,
        manager,
        ?servers,
        metrics = ?settings.metrics,
        admin = ?settings.admin.map(|address| address.to_string()),
        "starting KMS reporter"
    );
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
}

/// Returns on the first signal. The second one exits the process immediately.
async fn first_signal(mut signals: ShutdownSignals) {
    signals.recv().await;
    signals.exit_on_next(1);
}

/// Binds and serves. An address in use is retried: it must not end the reporter.
async fn serve<Fut>(
    server: &'static str,
    address: SocketAddr,
    bind: impl Fn() -> Fut,
    stop: CancellationToken,
) where
    Fut: Future<Output = std::io::Result<BoundAdmin>>,
{
    let mut logged = false;
    loop {
        match bind().await {
            Ok(bound) => {
                tracing::info!(server, address = %bound.address(), "server listening");
                return bound.serve(stop).await;
            }
            Err(error) if !logged => {
                logged = true;
                tracing::warn!(server, %address, %error, "failed to bind server, retrying");
            }
            Err(_) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(BIND_RETRY) => {}
        }
    }
}

/// Probes and publishes in rounds. Each round is due one period after the start of the previous one.
async fn run_rounds(
    settings: Settings,
    mut plugins: Plugins,
    mut publisher: Publisher,
    metrics: ReporterMetrics,
) {
    let interval = settings.interval();
    let delay = cadence::first_delay(interval, fastrand::f64());
    tracing::debug!(seconds = delay.as_secs_f64(), "delaying first round");
    tokio::time::sleep(delay).await;
    let start = Instant::now();
    let mut publish_log = PublishLog::default();
    let mut pace = WritePacer::new(interval, settings.publication.format.has_interval_field());
    let mut news = ChangeDetector::default();
    loop {
        let round_start = Instant::now();
        let period = cadence::period(interval, fastrand::f64());
        tracing::debug!(seconds = period.as_secs_f64(), "starting round; next round due after this period");
        let (previous, mut reports) = tokio::join!(publisher.read_previous(), plugins.probe_all());
        if pace.should_write(news.has_changed(&reports), start.elapsed()) {
            let publish_start = Instant::now();
            let Published { outcome, retry_after } = match previous {
                Ok(previous) => {
                    plugins.adopt_key_ids(&previous.key_ids, &mut reports);
                    let options = PublishOptions {
                        interval: pace.max_interval(),
                        fail_on_conflict: pace.is_overloaded(),
                    };
                    publisher.publish(&reports, options).await
                }
                Err(outcome) => Published { outcome, retry_after: None },
            };
            let (end, writers) = (outcome.pace_end(), publisher.writers());
            pace.record_write(
                &CompletedWrite { outcome: end, took: publish_start.elapsed(), writers, retry_after },
                start.elapsed(),
                fastrand::f64(),
            );
            if outcome.is_stored() {
                news.record_stored(&reports);
            }
            metrics.record_publish(&outcome);
            metrics.set_promised_interval(pace.max_interval());
            publish_log.log_outcome(&outcome);
            publish_log.log_pace(&pace, writers);
        } else {
            metrics.record_skipped_publish();
        }
        metrics.record_round(round_start.elapsed(), interval);
        tokio::time::sleep(cadence::wait(period, round_start.elapsed())).await;
    }
}

/// Logs changes of the publish outcome, and not every round.
#[derive(Default)]
struct PublishLog {
    last: Option<&'static str>,
    failed_rounds: u64,
    is_crowded: bool,
}

impl PublishLog {
    fn log_outcome(&mut self, outcome: &Outcome) {
        let changed = self.last.replace(outcome.name()) != Some(outcome.name());
        let failed_rounds = self.failed_rounds;
        self.failed_rounds = if outcome.is_stored() { 0 } else { failed_rounds + 1 };
        if !changed {
            return;
        }
        let (name, error) = (outcome.name(), outcome.message());
        match outcome {
            Outcome::Stored => tracing::info!(failed_rounds, "reports published"),
            Outcome::StoredSmallest(_) => {
                tracing::warn!(outcome = name, error, failed_rounds, "reports published without details");
            }
            _ => tracing::error!(outcome = name, error, "failed to publish reports, retrying every round"),
        }
    }

    fn log_pace(&mut self, pace: &WritePacer, writers: usize) {
        let crowded = pace.is_overloaded();
        if std::mem::replace(&mut self.is_crowded, crowded) == crowded {
            return;
        }
        let seconds = pace.max_interval().as_secs();
        if crowded {
            tracing::warn!(
                writers,
                seconds,
                "API server too slow for the number of reporters on one object: publishing unchanged reports only after this \
                 interval; spread reporters over several objects with --target-name"
            );
        } else {
            tracing::info!(writers, seconds, "publishing every round again");
        }
    }
}
