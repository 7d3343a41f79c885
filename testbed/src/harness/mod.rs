//! Test harness for suites that need a real cluster. It owns the process, which libtest does not allow: shared
//! resources are stopped at the end, a signal cleans up everything, and a failed test prints the tails of its logs.

pub mod binaries;
pub mod footprint;
pub mod generated;
pub mod logs;
pub mod raw_http;
pub mod rbac;
pub mod wait;

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
use crate::cluster::site::{self, MachineAccess, Site};
use crate::demo::platform::Platform;
use crate::error::{Error, Result};
use crate::process::signals;

/// Lines per log that a failed test prints.
const TAIL_LINES: usize = 15;

/// Enough to test more than one neighbor.
const SHARED_NODES: usize = 3;

/// Result of a test: `?` works with every error that implements `Display`.
pub type TestResult<T = ()> = std::result::Result<T, Failed>;

type TestFuture = Pin<Box<dyn Future<Output = TestResult>>>;

type Test = fn(Context) -> TestFuture;

/// The tests of one binary.
pub struct Suite {
    name: &'static str,
    tests: Vec<(&'static str, Test)>,
    last: Option<(&'static str, Test)>,
    at_once: Option<usize>,
    access: MachineAccess,
}

/// What one test works with.
#[derive(Clone)]
pub struct Context {
    name: &'static str,
    logs: PathBuf,
    shared: Arc<Shared>,
}

/// Resources shared by the tests of one binary, started on first use.
struct Shared {
    control_plane: OnceCell<ControlPlane>,
    plane_with_controllers: OnceCell<ControlPlane>,
    cluster: OnceCell<Cluster>,
    platform: OnceCell<Platform>,
    logs: PathBuf,
}

impl Context {
    /// Returns the test name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// Returns the log directory of the test.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// Claims a site for this test alone.
    pub fn site(&self) -> Result<Arc<Site>> {
        Site::claim(&self.logs)
    }

    /// Returns the control plane shared by the tests of this binary: etcd and kube-apiserver, no controllers. Each
    /// test uses its own namespace.
    pub async fn control_plane(&self) -> Result<&ControlPlane> {
        self.shared
            .control_plane
            .get_or_try_init(|| async {
                ControlPlane::builder(&Site::claim(&self.shared.logs)?).start().await
            })
            .await
    }

    /// Returns the shared control plane with kube-controller-manager. Each test uses its own namespace.
    pub async fn control_plane_with_controllers(&self) -> Result<&ControlPlane> {
        self.shared
            .plane_with_controllers
            .get_or_try_init(|| async {
                ControlPlane::builder(&Site::claim(self.shared.logs.join("controlled"))?)
                    .controllers()
                    .start()
                    .await
            })
            .await
    }

    /// Returns the shared cluster: three nodes with our image, and DNS. Each test uses its own namespace and must
    /// not break what others use.
    pub async fn cluster(&self) -> Result<&Cluster> {
        self.shared
            .cluster
            .get_or_try_init(|| async {
                Cluster::start(&Site::claim(&self.shared.logs)?, SHARED_NODES).await
            })
            .await
    }

    /// Returns the shared platform, with the operator installed as in `examples`.
    pub async fn platform(&self) -> Result<&Platform> {
        self.shared
            .platform
            .get_or_try_init(|| async {
                let platform = Platform::start(&Site::claim(&self.shared.logs)?).await?;
                platform.install()?;
                Ok(platform)
            })
            .await
    }

    /// Creates a namespace for this test on the shared control plane.
    pub async fn namespace(&self) -> Result<String> {
        self.control_plane().await?.namespace(self.name).await
    }
}

impl Suite {
    /// Creates a suite; its name is also its log directory.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, tests: Vec::new(), last: None, at_once: None, access: MachineAccess::Shared }
    }

    /// Adds a test.
    #[must_use]
    pub fn test(mut self, name: &'static str, test: Test) -> Self {
        self.tests.push((name, test));
        self
    }

    /// Sets the test that runs when all others have ended: for what holds of all of them together.
    #[must_use]
    pub fn last(self, name: &'static str, test: Test) -> Self {
        Self { last: Some((name, test)), ..self }
    }

    /// Runs one test at a time and excludes all other suites: for tests that inspect the whole machine.
    #[must_use]
    pub fn exclusive(self) -> Self {
        Self { access: MachineAccess::Exclusive, ..self.concurrency(1) }
    }

    /// Does not wait for other suites: for a suite that is run by a test of another one.
    #[must_use]
    pub fn nested(self) -> Self {
        Self { access: MachineAccess::Inherited, ..self }
    }

    /// Sets the number of concurrent tests; may exceed the number of CPUs if the tests mostly wait.
    #[must_use]
    pub fn concurrency(mut self, count: usize) -> Self {
        self.at_once = Some(count);
        self
    }

    /// Runs the tests selected on the command line (flags as in `cargo test`) and removes everything it started.
    #[must_use]
    pub fn run(self) -> ExitCode {
        if let Err(error) = signals::cleanup_on_signal(|signal| 128 + signal) {
            eprintln!("testbed: {error}");
            return ExitCode::from(2);
        }
        let _machine_lock = match site::lock_machine(self.access) {
            Ok(lock) => lock,
            Err(error) => {
                eprintln!("testbed: {error}");
                return ExitCode::from(2);
            }
        };
        let shared = Arc::new(Shared {
            control_plane: OnceCell::new(),
            plane_with_controllers: OnceCell::new(),
            cluster: OnceCell::new(),
            platform: OnceCell::new(),
            logs: logs::test_dir(self.name, "shared"),
        });
        let mut arguments = Arguments::from_args();
        arguments.test_threads = self.at_once.or(arguments.test_threads);
        let run = |tests: Vec<(&'static str, Test)>| {
            let trials = tests.into_iter().map(|(name, test)| {
                let (suite, shared) = (self.name, shared.clone());
                Trial::test(name, move || {
                    let logs = logs::test_dir(suite, name);
                    run_one(test, Context { name, logs, shared })
                })
            });
            libtest_mimic::run(&arguments, trials.collect())
        };
        let conclusion = run(self.tests);
        let last = self.last.map(|test| run(vec![test]));
        drop(shared);
        match last {
            Some(last) if !conclusion.has_failed() => last.exit_code(),
            _ => conclusion.exit_code(),
        }
    }
}

/// One runtime per test: a test that blocks or leaks tasks affects only itself.
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
            print_log_tails(&folders);
            Err(failed)
        }
        Err(panic) => {
            print_log_tails(&folders);
            resume_unwind(panic)
        }
    }
}

/// Prints the tails of all logs that may explain the failure.
fn print_log_tails(folders: &[PathBuf]) {
    for path in folders.iter().flat_map(|folder| logs::files(folder)) {
        // Audit log lines are long and explain no failure.
        if !path.ends_with("audit.log") {
            eprintln!("--- last lines of {}\n{}", path.display(), logs::tail(&path, TAIL_LINES));
        }
    }
}

/// Returns the name of the test at a path, without its modules: test names are unique in a suite.
#[must_use]
pub fn test_name(path: &'static str) -> &'static str {
    path.rsplit("::").next().unwrap_or(path).trim()
}

/// Defines `main` of a test binary: `testbed::suite![first_test, module::second_test];`. A leading `concurrency = 4;`
/// sets [`Suite::concurrency`], a `last = module::test;` behind it [`Suite::last`]. A test that is not listed is dead code, which the lints
/// deny.
#[macro_export]
macro_rules! suite {
    (concurrency = $count:expr; last = $last:path; $($test:path),* $(,)?) => {
        fn main() -> std::process::ExitCode {
            let suite = $crate::tests![$($test),*].concurrency($count);
            let name = $crate::harness::test_name(stringify!($last));
            suite.last(name, |context| Box::pin($last(context))).run()
        }
    };
    (concurrency = $count:expr; $($test:path),* $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::tests![$($test),*].concurrency($count).run()
        }
    };
    ($($test:path),* $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::tests![$($test),*].run()
        }
    };
}

/// Returns the [`Suite`] with these tests, named after the test binary: for a binary that needs its own `main`.
#[macro_export]
macro_rules! tests {
    ($($test:path),* $(,)?) => {
        $crate::harness::Suite::new(env!("CARGO_CRATE_NAME"))
            $(.test($crate::harness::test_name(stringify!($test)), |context| Box::pin($test(context))))*
    };
}

#[cfg(test)]
mod tests {
    use super::test_name;

    #[test]
    fn test_name_omits_modules() {
        assert_eq!(test_name(stringify!(alone)), "alone");
        assert_eq!(test_name(stringify!(outer::inner::nested)), "nested");
    }
}
