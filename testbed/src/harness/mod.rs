//! Runs the tests of one binary against the real world. It owns the process, which the usual runner does not let one
//! do: what tests share is stopped at the end, a signal removes everything, and a failed test shows the ends of its logs.

pub mod binaries;
pub mod footprint;
pub mod generated;
pub mod logs;
pub mod rights;
pub mod wait;
pub mod wire;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::cluster::control_plane::ControlPlane;
use crate::cluster::site::{self, Reach, Site};
use crate::demo::platform::Platform;
use crate::error::{Error, Result};
use crate::process::signals;

/// How many lines of each log a failed test shows.
const TAIL_LINES: usize = 15;

/// As many as show that something works beyond one neighbour.
const SHARED_NODES: usize = 3;

/// The result of a test: `?` works on every error that can be displayed.
pub type TestResult<T = ()> = std::result::Result<T, Failed>;

type TestFuture = Pin<Box<dyn Future<Output = TestResult>>>;

type Test = fn(Context) -> TestFuture;

/// The tests of one binary.
pub struct Suite {
    name: &'static str,
    tests: Vec<(&'static str, Test)>,
    at_once: Option<usize>,
    reach: Reach,
}

/// What one test works with.
#[derive(Clone)]
pub struct Context {
    name: &'static str,
    logs: PathBuf,
    shared: Arc<Shared>,
}

/// What the tests of one binary have in common: started by the first that asks for it.
struct Shared {
    control_plane: OnceCell<ControlPlane>,
    controlled_plane: OnceCell<ControlPlane>,
    cluster: OnceCell<Cluster>,
    platform: OnceCell<Platform>,
    logs: PathBuf,
}

impl Context {
    /// The test's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// The test's own folder for logs.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// A site of the test's own.
    pub fn site(&self) -> Result<Arc<Site>> {
        Site::claim(&self.logs)
    }

    /// The control plane that the tests of this binary share: etcd and kube-apiserver, no controllers. Each test keeps
    /// to a namespace of its own.
    pub async fn control_plane(&self) -> Result<&ControlPlane> {
        self.shared
            .control_plane
            .get_or_try_init(|| async { ControlPlane::on(&Site::claim(&self.shared.logs)?).start().await })
            .await
    }

    /// The control plane with kube-controller-manager that the tests of this binary share. Each test keeps to a namespace of
    /// its own.
    pub async fn controlled_plane(&self) -> Result<&ControlPlane> {
        self.shared
            .controlled_plane
            .get_or_try_init(|| async {
                ControlPlane::on(&Site::claim(self.shared.logs.join("controlled"))?)
                    .controllers()
                    .start()
                    .await
            })
            .await
    }

    /// The cluster that the tests of this binary share: three nodes with our image, and DNS. Each test keeps to a
    /// namespace of its own, and breaks nothing that others use.
    pub async fn cluster(&self) -> Result<&Cluster> {
        self.shared
            .cluster
            .get_or_try_init(|| async { Cluster::on(&Site::claim(&self.shared.logs)?, SHARED_NODES).await })
            .await
    }

    /// The platform that the tests of this binary share, with the operator installed as `examples` does it.
    pub async fn platform(&self) -> Result<&Platform> {
        self.shared
            .platform
            .get_or_try_init(|| async {
                let platform = Platform::on(&Site::claim(&self.shared.logs)?).await?;
                platform.install()?;
                Ok(platform)
            })
            .await
    }

    /// A namespace of the test's own on the shared control plane.
    pub async fn namespace(&self) -> Result<String> {
        self.control_plane().await?.namespace(self.name).await
    }
}

impl Suite {
    /// A suite; its name is the folder of its logs.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, tests: Vec::new(), at_once: None, reach: Reach::Sites }
    }

    /// Adds a test.
    #[must_use]
    pub fn test(mut self, name: &'static str, test: Test) -> Self {
        self.tests.push((name, test));
        self
    }

    /// Runs one test at a time, and no other suite meanwhile: for those that look at the whole machine.
    #[must_use]
    pub fn alone(self) -> Self {
        Self { reach: Reach::Machine, ..self.at_once(1) }
    }

    /// Waits for no other suite: for one that is run by a test of another.
    #[must_use]
    pub fn within_another(self) -> Self {
        Self { reach: Reach::Inherited, ..self }
    }

    /// Runs so many tests at a time: more than there are processors, for those that mostly wait.
    #[must_use]
    pub fn at_once(mut self, count: usize) -> Self {
        self.at_once = Some(count);
        self
    }

    /// Runs what the command line asks for (the flags are those of `cargo test`) and removes everything it started.
    #[must_use]
    pub fn run(self) -> ExitCode {
        if let Err(error) = signals::remove_on_signal(|signal| 128 + signal) {
            eprintln!("testbed: {error}");
            return ExitCode::from(2);
        }
        let _machine = match site::reach(self.reach) {
            Ok(held) => held,
            Err(error) => {
                eprintln!("testbed: {error}");
                return ExitCode::from(2);
            }
        };
        let shared = Arc::new(Shared {
            control_plane: OnceCell::new(),
            controlled_plane: OnceCell::new(),
            cluster: OnceCell::new(),
            platform: OnceCell::new(),
            logs: logs::folder(self.name, "shared"),
        });
        let trials = self
            .tests
            .into_iter()
            .map(|(name, test)| {
                let shared = shared.clone();
                let suite = self.name;
                Trial::test(name, move || {
                    let logs = logs::folder(suite, name);
                    run_one(test, Context { name, logs, shared })
                })
            })
            .collect();
        let mut arguments = Arguments::from_args();
        arguments.test_threads = self.at_once.or(arguments.test_threads);
        let conclusion = libtest_mimic::run(&arguments, trials);
        drop(shared);
        conclusion.exit_code()
    }
}

/// A runtime for one test: a test that blocks or leaks tasks harms only itself.
fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| Error::Io { what: "starting a runtime".into(), source })
}

fn run_one(test: Test, context: Context) -> TestResult {
    let runtime = runtime()?;
    let folders = [context.logs.clone(), context.shared.logs.clone()];
    match catch_unwind(AssertUnwindSafe(|| runtime.block_on(test(context)))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(failed)) => {
            print_tails(&folders);
            Err(failed)
        }
        Err(panic) => {
            print_tails(&folders);
            resume_unwind(panic)
        }
    }
}

/// Shows the end of every log that the failed test could be explained by.
fn print_tails(folders: &[PathBuf]) {
    for path in folders.iter().flat_map(|folder| logs::files(folder)) {
        // The audit log is for counting: its lines are long and explain no failure.
        if !path.ends_with("audit.log") {
            eprintln!("--- the end of {}\n{}", path.display(), logs::tail(&path, TAIL_LINES));
        }
    }
}

/// Writes `main` for a test binary: `testbed::suite![first_test, second_test];`. A test that is written but not listed
/// is dead code, which the lints deny.
#[macro_export]
macro_rules! suite {
    ($($test:ident),* $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::harness::Suite::new(env!("CARGO_CRATE_NAME"))
                $(.test(stringify!($test), |context| Box::pin($test(context))))*
                .run()
        }
    };
}
