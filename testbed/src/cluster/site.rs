//! A site is one numbered, exclusively owned piece of this machine: a state folder, a network, and a marker that every
//! process started there carries. Owning is a file lock, which the kernel gives back when the owner dies of whatever
//! cause; whoever gets the lock next may, and does, remove what the last owner left. Live owners are never disturbed.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cluster::address::{Addresses, NODES_PER_SITE, SITES};
use crate::cluster::lan;
use crate::cluster::sweep;
use crate::error::{Error, IoContext, Result};

/// Where the state of all sites is. One fixed place for the whole machine, since addresses and interface names are the
/// machine's too: two clones with different folders would hand out the same number twice.
const ROOT: &str = "/var/lib/outrigger-testbed";

/// Held by every suite: shared by those that keep to their sites, alone by those that look at the whole machine.
const MACHINE_LOCK: &str = "machine.lock";

/// Sites of this process, for the clean-up on a signal.
static OWNED: Mutex<BTreeSet<u8>> = Mutex::new(BTreeSet::new());

/// Set once this process is ending on a signal: from then on nothing new may be started behind the clean-up's back.
static ENDING: AtomicBool = AtomicBool::new(false);

/// How much of the machine a suite needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Its own sites: others may run beside it.
    Sites,
    /// All of it: nobody else runs meanwhile.
    Machine,
    /// As much as the suite that started it.
    Inherited,
}

/// Waits until others leave as much of the machine as is asked for. It is given back when the file is closed.
pub(crate) fn reach(reach: Reach) -> Result<Option<File>> {
    fs::create_dir_all(ROOT).context(|| format!("making {ROOT}"))?;
    let path = Path::new(ROOT).join(MACHINE_LOCK);
    let file = || File::create(&path).context(|| format!("opening {}", path.display()));
    let what = || format!("waiting for {}", path.display());
    // Who waits says so: another run may take an hour. Waiting itself is the kernel's: whoever looks again and again would never
    // meet the moment between two suites of others.
    let told = |free: bool| {
        if !free {
            eprintln!("testbed: waiting for other runs on this machine to end, or to make room");
        }
    };
    match reach {
        Reach::Inherited => Ok(None),
        Reach::Sites => {
            let file = file()?;
            told(file.try_lock_shared().is_ok());
            file.lock_shared().context(what).map(|()| Some(file))
        }
        Reach::Machine => {
            let file = file()?;
            told(file.try_lock().is_ok());
            file.lock().context(what).map(|()| Some(file))
        }
    }
}

/// One owned piece of the machine; everything in it is removed when it is dropped.
#[derive(Debug)]
pub struct Site {
    number: u8,
    dir: PathBuf,
    logs: PathBuf,
    /// Numbers of its nodes.
    nodes: Mutex<BTreeSet<u8>>,
    /// Held, not read: the kernel releases it when this process ends.
    _lock: File,
}

impl Site {
    /// Takes a free site, after removing whatever dead owners left on any of them. Logs of its processes go to `logs`.
    pub fn claim(logs: impl Into<PathBuf>) -> Result<Arc<Self>> {
        let logs = logs.into();
        fs::create_dir_all(&logs).context(|| format!("making {}", logs.display()))?;
        sweep_abandoned()?;
        for number in 0..SITES {
            if ENDING.load(Ordering::SeqCst) {
                return Err(Error::Refused("this process is being ended by a signal".into()));
            }
            let Some(lock) = try_lock(number)? else { continue };
            let site = Self { number, dir: dir_of(number), logs, nodes: Mutex::default(), _lock: lock };
            owned(|sites| sites.insert(number));
            fs::create_dir_all(&site.dir).context(|| format!("making {}", site.dir.display()))?;
            lan::create(number)?;
            return Ok(Arc::new(site));
        }
        Err(Error::Refused(format!("all {SITES} sites are in use by live processes; end some of them first")))
    }

    /// The site's number, unique among the living.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The site's addresses.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses::of_site(self.number)
    }

    /// The network namespace of the control plane.
    #[must_use]
    pub fn netns(&self) -> String {
        lan::netns_of(self.number)
    }

    /// The folder for state, removed with the site.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder for logs, which stays.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// A number for a node, not given twice as long as it is held.
    pub(crate) fn node_number(self: &Arc<Self>) -> Result<NodeNumber> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let free = (1..=NODES_PER_SITE).find(|number| !nodes.contains(number)).ok_or_else(|| {
            Error::Refused(format!("a site has addresses for {NODES_PER_SITE} nodes, and all are in use"))
        })?;
        nodes.insert(free);
        Ok(NodeNumber { number: free, site: self.clone() })
    }

    /// The environment variable that every process of the site carries, so that it is found when its owner has died.
    #[must_use]
    pub fn marker(&self) -> (&'static str, String) {
        (sweep::MARKER, self.number.to_string())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Err(error) = sweep::site(self.number, &self.dir) {
            eprintln!(
                "testbed: site {} could not be removed: {error}; the next run tries again",
                self.number
            );
        }
        owned(|sites| sites.remove(&self.number));
    }
}

/// The number of a node, counted from 1; free again when dropped.
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
        self.site.nodes.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// Removes what dead owners left, on every site; returns the numbers of the sites that had something.
pub fn sweep_abandoned() -> Result<Vec<u8>> {
    let mut swept = Vec::new();
    for number in 0..SITES {
        if !sweep::has_traces(number, &dir_of(number)) {
            continue;
        }
        let Some(lock) = try_lock(number)? else { continue };
        sweep::site(number, &dir_of(number))?;
        drop(lock);
        swept.push(number);
    }
    Ok(swept)
}

/// Removes every site of this process and lets it own none from here on: for a process that ends on a signal, whose
/// other threads are still at work.
pub fn end_all() {
    ENDING.store(true, Ordering::SeqCst);
    for number in owned(|sites| sites.clone()) {
        if let Err(error) = sweep::site(number, &dir_of(number)) {
            eprintln!("testbed: site {number} could not be removed: {error}; the next run tries again");
        }
    }
}

/// True while a live process owns the site, this one or another.
#[must_use]
pub fn is_live(number: u8) -> bool {
    number < SITES && matches!(try_lock(number), Ok(None))
}

/// True once [`end_all`] was called.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

fn owned<T>(access: impl FnOnce(&mut BTreeSet<u8>) -> T) -> T {
    access(&mut OWNED.lock().unwrap_or_else(PoisonError::into_inner))
}

fn dir_of(number: u8) -> PathBuf {
    Path::new(ROOT).join(number.to_string())
}

/// Takes the lock of a site, or nothing when a live process has it. Lock files are never removed: a process that
/// still holds the old file and one that locks a new file of the same name would both believe to be the owner.
fn try_lock(number: u8) -> Result<Option<File>> {
    fs::create_dir_all(ROOT).context(|| format!("making {ROOT} (are you root?)"))?;
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
