//! A site is a numbered slot of this machine, owned by one process: a state directory, a network, and a marker in the
//! environment of its processes. Ownership is a file lock, which the kernel releases however the owner exits. The next
//! process that gets the lock removes what the previous owner left; sites of live owners are never touched.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use crate::cluster::address::{Addresses, NODES_PER_SITE, SITES};
use crate::cluster::lan;
use crate::cluster::sweep;
use crate::error::{Error, IoContext, Result};
use crate::sync;

/// State directory of all sites. Fixed per machine, like addresses and interface names: two clones with different
/// directories would assign the same number twice.
const ROOT: &str = "/var/lib/outrigger-testbed";

/// Locked by every suite: shared by suites that use only their sites, exclusive by suites that inspect the whole
/// machine.
const MACHINE_LOCK: &str = "machine.lock";

/// Sites of this process, for the cleanup on a signal.
static OWNED: Mutex<BTreeSet<u8>> = Mutex::new(BTreeSet::new());

/// Set when this process terminates on a signal: from then on nothing may be started, because the cleanup could miss it.
static TERMINATING: AtomicBool = AtomicBool::new(false);

/// Locked for reading while a process starts, so that the cleanup on a signal finds it.
static STARTING: RwLock<()> = RwLock::new(());

/// Access of a suite to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MachineAccess {
    /// Uses only its own sites; other suites may run concurrently.
    Shared,
    /// Inspects the whole machine; no other suite may run.
    Exclusive,
    /// Covered by the lock of the suite that started it.
    Inherited,
}

/// Locks the machine, waiting for other suites if necessary. The lock is released when the file is closed.
pub(crate) fn lock_machine(access: MachineAccess) -> Result<Option<File>> {
    fs::create_dir_all(ROOT).context(|| format!("creating {ROOT}"))?;
    let path = Path::new(ROOT).join(MACHINE_LOCK);
    let file = || File::create(&path).context(|| format!("opening {}", path.display()));
    let what = || format!("waiting for {}", path.display());
    // The wait is announced, because another run may take an hour. It blocks in the kernel: polling could miss the gap
    // between two suites of other runs.
    let announce_wait = |is_free: bool| {
        if !is_free {
            eprintln!("testbed: waiting for other test runs on this machine");
        }
    };
    match access {
        MachineAccess::Inherited => Ok(None),
        MachineAccess::Shared => {
            let file = file()?;
            announce_wait(file.try_lock_shared().is_ok());
            file.lock_shared().context(what).map(|()| Some(file))
        }
        MachineAccess::Exclusive => {
            let file = file()?;
            announce_wait(file.try_lock().is_ok());
            file.lock().context(what).map(|()| Some(file))
        }
    }
}

/// An owned site; everything in it is removed on drop.
#[derive(Debug)]
pub struct Site {
    number: u8,
    dir: PathBuf,
    logs: PathBuf,
    /// Node numbers in use.
    nodes: Mutex<BTreeSet<u8>>,
    /// Only held: the kernel releases the lock when this process exits.
    _lock: File,
}

impl Site {
    /// Claims a free site after cleaning up all abandoned ones. Processes log to the directory `logs`.
    pub fn claim(logs: impl Into<PathBuf>) -> Result<Arc<Self>> {
        let logs = logs.into();
        fs::create_dir_all(&logs).context(|| format!("creating {}", logs.display()))?;
        sweep_abandoned()?;
        for number in 0..SITES {
            if TERMINATING.load(Ordering::SeqCst) {
                return Err(Error::Other("this process is terminating".into()));
            }
            let Some(lock) = try_lock(number)? else { continue };
            let site = Self { number, dir: dir_of(number), logs, nodes: Mutex::default(), _lock: lock };
            with_owned(|sites| sites.insert(number));
            fs::create_dir_all(&site.dir).context(|| format!("creating {}", site.dir.display()))?;
            lan::create(number)?;
            return Ok(Arc::new(site));
        }
        Err(Error::Other(format!(
            "all {SITES} sites are in use by running processes; stop some of them first"
        )))
    }

    /// Returns the number of the site, unique among live sites.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Returns the address plan of the site.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses::of_site(self.number)
    }

    /// Returns the name of the network namespace of the control plane.
    #[must_use]
    pub fn netns(&self) -> String {
        lan::netns_of(self.number)
    }

    /// Returns the state directory, which is removed with the site.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the log directory, which is kept.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// Reserves a free node number.
    pub(crate) fn reserve_node_number(self: &Arc<Self>) -> Result<NodeNumber> {
        let mut nodes = sync::lock(&self.nodes);
        let free = (1..=NODES_PER_SITE).find(|number| !nodes.contains(number)).ok_or_else(|| {
            Error::Other(format!("all {NODES_PER_SITE} node addresses of the site are in use"))
        })?;
        nodes.insert(free);
        Ok(NodeNumber { number: free, site: self.clone() })
    }

    /// Returns the environment variable that marks processes of the site, so that they are found after their owner exits.
    #[must_use]
    pub fn marker(&self) -> (&'static str, String) {
        (sweep::MARKER, self.number.to_string())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Err(error) = sweep::remove_site(self.number, &self.dir) {
            eprintln!("testbed: removing site {} failed: {error}; the next run retries", self.number);
        }
        with_owned(|sites| sites.remove(&self.number));
    }
}

/// Number of a node, counted from 1; released on drop.
#[derive(Debug)]
pub(crate) struct NodeNumber {
    number: u8,
    site: Arc<Site>,
}

impl NodeNumber {
    pub(crate) fn get(&self) -> u8 {
        self.number
    }

    pub(crate) fn site(&self) -> &Arc<Site> {
        &self.site
    }
}

impl Drop for NodeNumber {
    fn drop(&mut self) {
        sync::lock(&self.site.nodes).remove(&self.number);
    }
}

/// Removes what exited owners left on all sites and returns the numbers of the cleaned sites.
pub fn sweep_abandoned() -> Result<Vec<u8>> {
    let mut swept = Vec::new();
    for number in 0..SITES {
        if !sweep::has_traces(number, &dir_of(number)) {
            continue;
        }
        let Some(lock) = try_lock(number)? else { continue };
        sweep::remove_site(number, &dir_of(number))?;
        drop(lock);
        swept.push(number);
    }
    Ok(swept)
}

/// Removes all sites of this process and prevents new ones: for termination by a signal, while other threads are still
/// running.
pub fn remove_all() {
    TERMINATING.store(true, Ordering::SeqCst);
    drop(sync::write(&STARTING));
    for number in with_owned(|sites| sites.clone()) {
        if let Err(error) = sweep::remove_site(number, &dir_of(number)) {
            // `eprintln!` would panic if the reader of a pipe has exited, and the other sites would be left.
            let _ = writeln!(
                std::io::stderr(),
                "testbed: removing site {number} failed: {error}; the next run retries"
            );
        }
    }
}

/// Returns true if a running process, this one or another, owns the site.
#[must_use]
pub fn is_live(number: u8) -> bool {
    number < SITES && matches!(try_lock(number), Ok(None))
}

/// Permits the start of a process until the guard is dropped; returns `None` after [`remove_all`] was called.
pub(crate) fn allow_start() -> Option<RwLockReadGuard<'static, ()>> {
    let guard = sync::read(&STARTING);
    (!TERMINATING.load(Ordering::SeqCst)).then_some(guard)
}

fn with_owned<T>(access: impl FnOnce(&mut BTreeSet<u8>) -> T) -> T {
    access(&mut sync::lock(&OWNED))
}

fn dir_of(number: u8) -> PathBuf {
    Path::new(ROOT).join(number.to_string())
}

/// Locks a site; returns `None` if a running process owns it. Lock files are never removed: otherwise a process that
/// holds a removed file and one that locks a new file of the same name would both own the site.
fn try_lock(number: u8) -> Result<Option<File>> {
    fs::create_dir_all(ROOT).context(|| format!("creating {ROOT} (root is required)"))?;
    let path = Path::new(ROOT).join(format!("{number}.lock"));
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .context(|| format!("opening {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => {
            Err(Error::Io { what: format!("locking {}", path.display()), source })
        }
    }
}
