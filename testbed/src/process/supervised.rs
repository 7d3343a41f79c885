//! A process that is started again when it ends by itself, as kubelets do with the control planes of real clusters.
//! kube-scheduler, for one, ends itself when it has missed that a pod was deleted, as it may while the API server restarts.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::cluster::site::Site;
use crate::error::{IoContext, Result};
use crate::process::{Process, Program};

/// How often it is looked at, which is also how long it stays away.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// How often it is started again. One that ends more often does not work, and stays dead for everybody to see.
const MOST_RESTARTS: usize = 10;

/// A process that is started again when it ends by itself; ended when dropped.
#[derive(Debug)]
pub(crate) struct Supervised {
    process: Arc<Mutex<Process>>,
    end: Option<Sender<()>>,
    supervisor: Option<JoinHandle<()>>,
}

impl Supervised {
    /// Starts it.
    pub(crate) fn start(program: Program, site: &Arc<Site>) -> Result<Self> {
        let process = Arc::new(Mutex::new(program.clone().start(site)?));
        let (end, ended) = mpsc::channel();
        let supervised = (process.clone(), site.clone());
        let supervisor = std::thread::Builder::new()
            .name("supervisor".into())
            .spawn(move || {
                let (process, site) = supervised;
                let mut restarts = 0;
                while restarts < MOST_RESTARTS
                    && ended.recv_timeout(BETWEEN_LOOKS) == Err(RecvTimeoutError::Timeout)
                {
                    let Err(why) = lock(&process).check_alive() else { continue };
                    restarts += 1;
                    match program.clone().start(&site) {
                        Ok(again) => {
                            eprintln!("testbed: started again: {}", first_line(&why.to_string()));
                            *lock(&process) = again;
                        }
                        Err(error) => eprintln!("testbed: {error}"),
                    }
                }
            })
            .context(|| "starting a thread".to_owned())?;
        Ok(Self { process, end: Some(end), supervisor: Some(supervisor) })
    }

    /// Fails when it is dead.
    pub(crate) fn check_alive(&self) -> Result<()> {
        lock(&self.process).check_alive()
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> Result<u32> {
        lock(&self.process).pid()
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(supervisor) = self.supervisor.take() {
            // It has nothing to say.
            let _ = supervisor.join();
        }
    }
}

fn lock(process: &Mutex<Process>) -> MutexGuard<'_, Process> {
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
