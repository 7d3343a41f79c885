//! The reporter's process, from its settings to its end. After the settings were read nothing ends it but a signal: it stands
//! before an API server in its pod, and must not keep that from starting.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use plan::kms::cadence;
use plan::kms::pace::{Pace, Write};
use plan::kms::publication::News;
use runtime::admin::Admin;
use runtime::metrics::Metrics;
use runtime::tasks::{Phase, Tasks};
use runtime::telemetry::{self, Options};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::metrics::ReporterMetrics;
use super::publish::{Order, Outcome, Published, Publisher};
use super::round::Plugins;
use super::settings::Settings;

/// How long until an address that is taken is tried again.
const LISTEN_AGAIN: Duration = Duration::from_secs(10);

/// Why the process ended, or did not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Logs cannot be written.
    #[error("--log-level: {0}")]
    Telemetry(String),
    /// Signals cannot be listened for.
    #[error("listening for signals: {0}")]
    Signals(#[from] std::io::Error),
    /// A task ended that must live.
    #[error(transparent)]
    Tasks(#[from] runtime::tasks::Error),
}

/// Lives as the reporter until it is told to end.
pub async fn run(settings: Settings) -> Result<(), Error> {
    let told = telemetry::start(&Options {
        format: settings.log_format,
        level: &settings.log_level,
        traces_to: None,
        service: "outrigger-kms-reporter",
    })
    .map_err(Error::Telemetry)?;
    let signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tell_settings(&settings);
    let metrics = Metrics::new();
    let reporter_metrics = ReporterMetrics::new(&metrics);
    let mut tasks = Tasks::new();
    if let Some(address) = settings.admin {
        let admin = Admin::new(&metrics, Some(told.level()));
        let stop = tasks.stop(Phase::Watchman);
        tasks.spawn(Phase::Watchman, "admin", serve(admin, address, stop));
    }
    let publisher = Publisher::new(&settings, &metrics);
    let plugins = Plugins::new(&settings, &reporter_metrics);
    let rounds = rounds(settings, plugins, publisher, reporter_metrics);
    // What is under way is dropped: neither a plugin nor a server is waited for at the end.
    tasks.spawn_until_stopped(Phase::Intake, "rounds", rounds);
    let ended = tasks.run_until(first_signal(signals)).await;
    told.end().await;
    Ok(ended?)
}

fn tell_settings(settings: &Settings) {
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
    let (_, kind) = publication.target.kind();
    tracing::info!(
        ?sockets,
        interval = ?publication.interval,
        ?read_timeout,
        ?write_timeout,
        ?deep_probe_interval,
        node = publication.node,
        form = ?publication.form,
        kind,
        name = publication.name,
        manager,
        ?servers,
        admin = ?settings.admin,
        "reporting the health of KMS plugins"
    );
    for sentence in &settings.warnings {
        tracing::warn!("{sentence}");
    }
}

/// Ends with the first signal. The second one ends the process at once.
async fn first_signal((mut terminate, mut interrupt): (Signal, Signal)) {
    next(&mut terminate, &mut interrupt).await;
    tokio::spawn(async move {
        next(&mut terminate, &mut interrupt).await;
        std::process::exit(1);
    });
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM: ending"),
        _ = interrupt.recv() => tracing::info!("SIGINT: ending"),
    }
}

/// Serves metrics and health. An address that is taken is no reason to end.
async fn serve(admin: Admin, address: SocketAddr, stop: CancellationToken) {
    let mut told = false;
    loop {
        match admin.clone().bind(address).await {
            Ok(bound) => {
                tracing::info!(address = %bound.address(), "serving health, metrics and state");
                return bound.serve(stop).await;
            }
            Err(error) if !told => {
                told = true;
                tracing::warn!(%address, %error, "metrics and health cannot be served; trying again");
            }
            Err(_) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LISTEN_AGAIN) => {}
        }
    }
}

/// Round after round: each is due one period after the begin of the one before.
async fn rounds(
    settings: Settings,
    mut plugins: Plugins,
    mut publisher: Publisher,
    metrics: ReporterMetrics,
) {
    let interval = settings.interval();
    let first = cadence::first_delay(interval, fastrand::f64());
    tracing::debug!(seconds = first.as_secs_f64(), "the first round is put off");
    tokio::time::sleep(first).await;
    let start = Instant::now();
    let mut teller = Teller::default();
    let mut pace = Pace::new(interval, settings.publication.form.tells_interval());
    let mut news = News::default();
    loop {
        let begin = Instant::now();
        let period = cadence::period(interval, fastrand::f64());
        tracing::debug!(
            seconds = period.as_secs_f64(),
            "a round begins; the next one is due after this time"
        );
        let (left, mut reports) = tokio::join!(publisher.left_behind(), plugins.look());
        if pace.writes(news.is_in(&reports), start.elapsed()) {
            let asked = Instant::now();
            let Published { outcome, after } = match left {
                Ok(left) => {
                    plugins.adopt(&left.key_ids, &mut reports);
                    let order = Order { promise: pace.promise(), once: pace.is_crowded() };
                    publisher.publish(&reports, order).await
                }
                Err(outcome) => Published { outcome, after: None },
            };
            let (end, writers) = (outcome.end(), publisher.writers());
            pace.wrote(
                &Write { end, took: asked.elapsed(), writers, after },
                start.elapsed(),
                fastrand::f64(),
            );
            if outcome.is_stored() {
                news.stored(&reports);
            }
            metrics.published(&outcome);
            metrics.promised(pace.promise());
            teller.tell(&outcome);
            teller.tell_pace(&pace, writers);
        } else {
            metrics.left_out();
        }
        metrics.round(begin.elapsed(), interval);
        tokio::time::sleep(cadence::wait(period, begin.elapsed())).await;
    }
}

/// Tells how publishing goes when that changes, and not in each round.
#[derive(Default)]
struct Teller {
    last: Option<&'static str>,
    failed: u64,
    crowded: bool,
}

impl Teller {
    fn tell(&mut self, outcome: &Outcome) {
        let changed = self.last.replace(outcome.name()) != Some(outcome.name());
        let failed = self.failed;
        self.failed = if outcome.is_stored() { 0 } else { failed + 1 };
        if !changed {
            return;
        }
        let (name, why) = (outcome.name(), outcome.why());
        match outcome {
            Outcome::Stored => tracing::info!(rounds_lost = failed, "reports are published"),
            Outcome::StoredSmallest(_) => {
                tracing::warn!(
                    outcome = name,
                    why,
                    rounds_lost = failed,
                    "reports are published without details"
                );
            }
            _ => tracing::error!(
                outcome = name,
                why,
                "reports cannot be published; trying again in each round"
            ),
        }
    }

    fn tell_pace(&mut self, pace: &Pace, writers: usize) {
        let crowded = pace.is_crowded();
        if std::mem::replace(&mut self.crowded, crowded) == crowded {
            return;
        }
        let seconds = pace.promise().as_secs();
        if crowded {
            tracing::warn!(
                writers,
                seconds,
                "the API server is slow with so many reporters of one object: what says nothing new waits for so long; \
                 put them on several objects (--target-name)"
            );
        } else {
            tracing::info!(writers, seconds, "every round is published again");
        }
    }
}
