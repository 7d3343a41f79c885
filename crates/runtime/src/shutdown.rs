//! SIGTERM and SIGINT.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Handlers for SIGTERM and SIGINT. Signals that arrive after [`register`](Self::register) are not lost, even if nothing waits
/// for them yet.
#[derive(Debug)]
pub struct ShutdownSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl ShutdownSignals {
    /// Registers the handlers. Call it early: until then a signal kills the process. Must be called within a tokio runtime.
    pub fn register() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next signal and logs it.
    pub async fn recv(&mut self) {
        let signal = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal, "received shutdown signal");
    }

    /// Exits the process with `code` on the next signal. For use after the first one, while connections drain.
    pub fn exit_on_next(mut self, code: i32) {
        tokio::spawn(async move {
            self.recv().await;
            std::process::exit(code);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[tokio::test]
    async fn signal_sent_before_recv_is_not_lost() {
        let mut signals = ShutdownSignals::register().unwrap();
        for signal in [Signal::TERM, Signal::INT] {
            kill_process(getpid(), signal).unwrap();
            tokio::time::timeout(Duration::from_secs(10), signals.recv()).await.unwrap();
        }
    }
}
