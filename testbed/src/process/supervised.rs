//! A process that is restarted when it exits, like static pods of a real control plane. For example, kube-scheduler
//! exits if it missed the deletion of a pod during an API server restart.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cluster::site::Site;
use crate::error::{IoContext, Result};
use crate::process::{Process, Program};
use crate::sync::lock;

/// Poll interval, which is also the restart delay.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of restarts. A process that exits more often is broken and stays down, so that the failure shows.
const MAX_RESTARTS: usize = 10;

/// A process that is restarted when it exits; stopped when dropped.
#[derive(Debug)]
pub(crate) struct SupervisedProcess {
    process: Arc<Mutex<Process>>,
    end: Option<Sender<()>>,
    supervisor: Option<JoinHandle<()>>,
}

impl SupervisedProcess {
    /// Starts it.
    pub(crate) fn start(program: Program, site: &Arc<Site>) -> Result<Self> {
        let process = Arc::new(Mutex::new(program.clone().start(site)?));
        let (end, ended) = mpsc::channel();
        let thread_state = (process.clone(), site.clone());
        let supervisor = std::thread::Builder::new()
            .name("supervisor".into())
            .spawn(move || {
                let (process, site) = thread_state;
                let mut restarts = 0;
                while restarts < MAX_RESTARTS
                    && ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout)
                {
                    let Err(error) = lock(&process).check_alive() else { continue };
                    restarts += 1;
                    match program.clone().start(&site) {
                        Ok(restarted) => {
                            eprintln!("testbed: restarted: {}", first_line(&error.to_string()));
                            *lock(&process) = restarted;
                        }
                        Err(error) => eprintln!("testbed: {error}"),
                    }
                }
            })
            .context(|| "starting the supervisor thread".to_owned())?;
        Ok(Self { process, end: Some(end), supervisor: Some(supervisor) })
    }

    /// Fails if it is not running.
    pub(crate) fn check_alive(&self) -> Result<()> {
        lock(&self.process).check_alive()
    }

    /// Returns the process ID.
    pub(crate) fn pid(&self) -> Result<u32> {
        lock(&self.process).pid()
    }
}

impl Drop for SupervisedProcess {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(supervisor) = self.supervisor.take() {
            // The thread returns nothing.
            let _ = supervisor.join();
        }
    }
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
