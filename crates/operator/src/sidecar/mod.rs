//! Sidecars, asked in the background: no question holds up the pass that asks it. An answer that takes longer than a moment is
//! kept for the node's next pass, and brings it about.

mod client;
mod connection;
mod former;
mod token;
mod trouble;
mod trust;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::sidecar_wire::TaskRequest;
use plan::node::{Health, SecretSight, Served, Submission, TaskSight, Transport};
use runtime::Key;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

pub use self::client::Client;
use self::connection::Target;
pub use self::trouble::Trouble;

/// How long a pass waits for an answer.
const A_MOMENT: Duration = Duration::from_millis(250);

/// How long an answer that came late is worth something: the pass that it brings about comes at once.
const GOOD_FOR: Duration = Duration::from_secs(10);

/// How many questions are under way at once. The others wait for their turn: a thousand sidecars that hang must not hold a
/// thousand connections.
const MOST_AT_ONCE: usize = 256;

/// How many questions and answers are remembered. What is more is asked again in a later pass.
const MOST_REMEMBERED: usize = 65_536;

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Health,
    Task,
    Submission,
    Served,
}

/// A question, as far as another one may differ from it.
#[derive(Clone, Debug, PartialEq)]
enum Question {
    Health,
    Task(String),
    Submission(TaskRequest),
    Served,
}

impl Question {
    fn kind(&self) -> Kind {
        match self {
            Self::Health => Kind::Health,
            Self::Task(_) => Kind::Task,
            Self::Submission(_) => Kind::Submission,
            Self::Served => Kind::Served,
        }
    }
}

#[derive(Clone, Debug)]
enum Answer {
    Health(Health),
    Task(TaskSight),
    Submission(Submission),
    Served(Served),
}

/// A question that was asked.
struct Asked {
    /// Tells it from one that took its place.
    number: u64,
    target: Target,
    question: Question,
    /// The pass that asked has gone on.
    late: bool,
    answer: Option<(Answer, Instant)>,
    answered: Arc<Notify>,
    work: Option<AbortHandle>,
}

impl Asked {
    fn is_fresh(&self) -> bool {
        match &self.answer {
            Some((_, when)) => when.elapsed() < GOOD_FOR,
            // A task that ended without an answer never gives one.
            None => self.work.as_ref().is_none_or(|work| !work.is_finished()),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

type Remembered = HashMap<(Key, Kind), Asked>;

/// The sidecars of all nodes. Clones share everything.
#[derive(Clone)]
pub struct Sidecars {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    wake: Box<dyn Fn(Key) + Send + Sync>,
    remembered: Mutex<(u64, Remembered)>,
    at_once: Semaphore,
}

impl Sidecars {
    /// Sidecars that are spoken to by this client. `wake` is called with the key of a node when an answer has come that its
    /// pass did not wait for; it must not block.
    #[must_use]
    pub fn new(client: Client, wake: impl Fn(Key) + Send + Sync + 'static) -> Self {
        let inner = Inner {
            client,
            wake: Box::new(wake),
            remembered: Mutex::default(),
            at_once: Semaphore::new(MOST_AT_ONCE),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether a node's sidecar lets seid run; [`Health::Unasked`] while the answer is still to come.
    pub async fn health(&self, node: &Key, to: &Transport, secret: Option<&SecretSight>) -> Health {
        match self.ask(node, to, secret, Question::Health).await {
            Ok(Some(Answer::Health(health))) => health,
            Ok(_) => Health::Unasked,
            Err(trouble) => Health::Unreachable(trouble.to_string()),
        }
    }

    /// What has become of a task; [`TaskSight::Unasked`] while the answer is still to come.
    pub async fn task(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretSight>,
        id: &str,
    ) -> TaskSight {
        let sight = match self.ask(node, to, secret, Question::Task(id.to_owned())).await {
            Ok(Some(Answer::Task(sight))) => sight,
            Ok(_) => TaskSight::Unasked,
            Err(trouble) => TaskSight::Unreachable(trouble.to_string()),
        };
        if let TaskSight::Found(_) = sight {
            self.inner.forget_submission_of(node, id);
        }
        sight
    }

    /// Gives a sidecar a task; none while its answer is still to come. Asked again in the next pass, it returns the answer to
    /// what was given before, and gives nothing twice.
    pub async fn submit(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretSight>,
        task: &TaskRequest,
    ) -> Option<Submission> {
        match self.ask(node, to, secret, Question::Submission(task.clone())).await {
            Ok(Some(Answer::Submission(submission))) => Some(submission),
            Ok(_) => None,
            Err(trouble) => Some(Submission::Unknown(trouble.to_string())),
        }
    }

    /// Whether a node's sidecar is served as the transport says; [`Served::Unasked`] while the answer is still to come.
    pub async fn served(&self, node: &Key, to: &Transport, secret: Option<&SecretSight>) -> Served {
        match self.ask(node, to, secret, Question::Served).await {
            Ok(Some(Answer::Served(served))) => served,
            Ok(_) => Served::Unasked,
            Err(trouble) => Served::Otherwise(trouble.to_string()),
        }
    }

    /// Forgets a node that is gone, and gives up what it was asked.
    pub fn forget(&self, node: &Key) {
        let kinds = [Kind::Health, Kind::Task, Kind::Submission, Kind::Served];
        let mut remembered = self.inner.remembered();
        let asked: Vec<Asked> =
            kinds.iter().filter_map(|kind| remembered.1.remove(&(node.clone(), *kind))).collect();
        drop(remembered);
        for asked in asked {
            self.inner.client.forget(&asked.target.host);
        }
        self.inner.client.forget(&api::names::object::pod_host(&node.name, &node.namespace));
    }

    /// How many questions and answers are remembered: for `/debug/state.json`.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.inner.remembered().1.len()
    }

    async fn ask(
        &self,
        node: &Key,
        to: &Transport,
        secret: Option<&SecretSight>,
        question: Question,
    ) -> Result<Option<Answer>, Trouble> {
        let target = self.inner.client.target(node, to, secret)?;
        let place = (node.clone(), question.kind());
        let Some(answered) = self.inner.clone().put(&place, target, question) else { return Ok(None) };
        // Answered or not, the entry tells.
        let _ = timeout(A_MOMENT, answered.wait()).await;
        Ok(self.inner.collect(&place))
    }
}

/// Waits for the answer to a question; one that came before is no wait.
struct Answered {
    notify: Arc<Notify>,
    already: bool,
}

impl Answered {
    async fn wait(self) {
        if !self.already {
            self.notify.notified().await;
        }
    }
}

impl Inner {
    fn remembered(&self) -> MutexGuard<'_, (u64, Remembered)> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a question, unless the very same one is under way or was just answered. None when too much is remembered.
    fn put(self: Arc<Self>, place: &(Key, Kind), target: Target, question: Question) -> Option<Answered> {
        let mut remembered = self.remembered();
        let (count, all) = &mut *remembered;
        if let Some(asked) = all.get_mut(place) {
            if asked.target == target && asked.question == question && asked.is_fresh() {
                asked.late = false;
                return Some(Answered { notify: asked.answered.clone(), already: asked.answer.is_some() });
            }
            all.remove(place);
        }
        if all.len() >= MOST_REMEMBERED {
            all.retain(|_, asked| asked.is_fresh());
        }
        if all.len() >= MOST_REMEMBERED {
            return None;
        }
        *count += 1;
        let number = *count;
        // One permit is kept for whoever comes to wait after the answer has come.
        let answered = Arc::new(Notify::new());
        let mut asked = Asked {
            number,
            target: target.clone(),
            question: question.clone(),
            late: false,
            answer: None,
            answered: answered.clone(),
            work: None,
        };
        let work = tokio::spawn(self.clone().work(place.clone(), number, target, question));
        asked.work = Some(work.abort_handle());
        all.insert(place.clone(), asked);
        Some(Answered { notify: answered, already: false })
    }

    async fn work(self: Arc<Self>, place: (Key, Kind), number: u64, target: Target, question: Question) {
        // It is never closed.
        let Ok(_turn) = self.at_once.acquire().await else { return };
        let answer = match &question {
            Question::Health => Answer::Health(self.client.health(&target).await),
            Question::Task(id) => Answer::Task(self.client.task(&target, id).await),
            Question::Submission(task) => Answer::Submission(self.client.submit(&target, task).await),
            Question::Served => Answer::Served(self.client.served(&target).await),
        };
        let late = {
            let mut remembered = self.remembered();
            let asked = remembered.1.get_mut(&place).filter(|asked| asked.number == number);
            // Nobody wants to know any more.
            let Some(asked) = asked else { return };
            asked.answer = Some((answer, Instant::now()));
            asked.answered.notify_one();
            asked.late
        };
        if late {
            (self.wake)(place.0);
        }
    }

    /// Takes an answer, or leaves word that it is to be told.
    fn collect(&self, place: &(Key, Kind)) -> Option<Answer> {
        let mut remembered = self.remembered();
        let asked = remembered.1.get_mut(place)?;
        match asked.answer.take() {
            Some((answer, _)) => {
                remembered.1.remove(place);
                Some(answer)
            }
            None => {
                asked.late = true;
                None
            }
        }
    }

    /// The sidecar knows the task: what it said when it was given is of yesterday. Kept, it would be taken for the answer to
    /// the next attempt at the same task.
    fn forget_submission_of(&self, node: &Key, id: &str) {
        let mut remembered = self.remembered();
        let place = (node.clone(), Kind::Submission);
        let old = remembered.1.get(&place).is_some_and(|asked| {
            let same =
                matches!(&asked.question, Question::Submission(task) if task.id.as_deref() == Some(id));
            same && asked.answer.is_some()
        });
        if old {
            remembered.1.remove(&place);
        }
    }
}

impl fmt::Debug for Sidecars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sidecars").field("remembered", &self.remembered()).finish_non_exhaustive()
    }
}
