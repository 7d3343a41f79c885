//! What every scenario stands on: the real API server with accounts, tokens and permissions.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use testbed::cluster::control_plane::{AuditReader, User};
use testbed::harness::wait;
use testbed::{Context, ControlPlane, Error, Result};
use tokio::sync::{Mutex, OnceCell};

/// How long things that take a moment may take.
pub const SOON: Duration = Duration::from_secs(20);

/// How long a call may take to be in the log.
const LOGGED: Duration = Duration::from_secs(3);

/// Who is allowed to review tokens and access.
const REVIEWERS: &str = "reviewers";

/// What the API server was asked by the proxy of one scenario.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    pub token_reviews: usize,
    pub access_reviews: Vec<Value>,
}

/// What one scenario stands on.
pub struct Ground<'a> {
    pub plane: &'a ControlPlane,
    pub client: Client,
    pub namespace: String,
    pub folder: TempDir,
    pub logs: PathBuf,
    /// The proxy's own user, by whom the audit log tells its calls.
    pub user: User,
    audit: Mutex<(AuditReader, Calls)>,
    caller: OnceCell<String>,
}

/// Makes the ground of one scenario.
pub async fn prepare<'a>(cx: &'a Context) -> Result<Ground<'a>> {
    static SHARED: OnceCell<()> = OnceCell::const_new();
    let plane = cx.control_plane().await?;
    let client = plane.client().await?;
    SHARED.get_or_try_init(|| reviewers(&client)).await?;
    let namespace = plane.namespace("conformance").await?;
    let user = plane.user(&format!("proxy-of-{namespace}"), Some(REVIEWERS))?;
    let folder =
        tempfile::tempdir().map_err(|source| Error::Io { what: "making a folder".into(), source })?;
    let audit = Mutex::new((plane.audit().reader_from_now()?, Calls::default()));
    let logs = cx.logs().to_owned();
    std::fs::create_dir_all(&logs).map_err(|source| Error::Io { what: "making a folder".into(), source })?;
    Ok(Ground { plane, client, namespace, folder, logs, user, audit, caller: OnceCell::new() })
}

/// Lets members of one group ask what a proxy asks, and nothing else.
async fn reviewers(client: &Client) -> Result<()> {
    let role = json!({
        "metadata": { "name": REVIEWERS },
        "rules": [
            { "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"] },
            { "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"] },
        ],
    });
    let role: ClusterRole = serde_json::from_value(role)?;
    bind(client, REVIEWERS, &role, &json!({ "kind": "Group", "name": REVIEWERS })).await?;
    let asked = json!({
        "user": "anybody", "groups": [REVIEWERS],
        "resourceAttributes": { "group": "authentication.k8s.io", "resource": "tokenreviews", "verb": "create" },
    });
    until_allowed(client, &asked).await
}

/// Makes a role and binds it; the API group of a subject is not that of a service account.
async fn bind(client: &Client, name: &str, role: &ClusterRole, subject: &Value) -> Result<()> {
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    roles.create(&PostParams::default(), role).await?;
    let mut subject = subject.clone();
    subject["apiGroup"] = "rbac.authorization.k8s.io".into();
    let binding = json!({
        "metadata": { "name": name }, "subjects": [subject],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
    });
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    Ok(())
}

/// The API server's own view of RBAC lags behind what was written.
async fn until_allowed(client: &Client, asked: &Value) -> Result<()> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let review: SubjectAccessReview = serde_json::from_value(json!({ "metadata": {}, "spec": asked }))?;
    wait::until("a permission", SOON, || async {
        let answer = reviews.create(&PostParams::default(), &review).await?;
        if answer.status.is_some_and(|status| status.allowed) {
            Ok(())
        } else {
            Err(Error::Refused(format!("{asked} is not allowed yet")))
        }
    })
    .await
}

impl Ground<'_> {
    /// A new service account; the name that RBAC knows it by.
    pub async fn account(&self, name: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let account = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        accounts.create(&PostParams::default(), &account).await?;
        Ok(self.name_of(name))
    }

    /// The name that RBAC knows an account by.
    pub fn name_of(&self, account: &str) -> String {
        format!("system:serviceaccount:{}:{account}", self.namespace)
    }

    /// A new token of an account.
    pub async fn token(&self, account: &str, audiences: &[&str]) -> Result<String> {
        let request = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {},
            "spec": { "audiences": audiences, "expirationSeconds": 3600 },
        });
        let address = format!("/api/v1/namespaces/{}/serviceaccounts/{account}/token", self.namespace);
        let request = http::Request::post(address)
            .header("content-type", "application/json")
            .body(request.to_string().into_bytes())
            .map_err(|error| Error::Refused(error.to_string()))?;
        let answer: Value = self.client.request(request).await?;
        let token = answer["status"]["token"].as_str();
        token.map(Into::into).ok_or_else(|| Error::Refused(format!("no token in {answer}")))
    }

    /// A token of an account that may use `/ok` and everything below it by the five usual methods.
    pub async fn caller(&self) -> Result<&str> {
        let made = self.caller.get_or_try_init(|| async {
            let user = self.account("caller").await?;
            let verbs = ["get", "create", "update", "patch", "delete"];
            self.grant_paths(&user, &["/ok", "/ok/*"], &verbs).await?;
            self.token("caller", &[]).await
        });
        Ok(made.await?.as_str())
    }

    /// A token of an account that may do nothing.
    pub async fn stranger(&self) -> Result<String> {
        self.account("stranger").await?;
        self.token("stranger", &[]).await
    }

    /// Allows a user some paths.
    pub async fn grant_paths(&self, user: &str, paths: &[&str], verbs: &[&str]) -> Result<()> {
        let rule = json!({ "nonResourceURLs": paths, "verbs": verbs });
        let asked = json!({ "path": paths[0].replace('*', "x"), "verb": verbs[0] });
        self.grant(user, &rule, &json!({ "nonResourceAttributes": asked })).await
    }

    /// Allows a user a resource everywhere.
    pub async fn grant_resource(
        &self,
        user: &str,
        group: &str,
        resource: &str,
        verbs: &[&str],
    ) -> Result<()> {
        let rule = json!({ "apiGroups": [group], "resources": [resource], "verbs": verbs });
        let asked = json!({ "group": group, "resource": resource, "verb": verbs[0] });
        self.grant(user, &rule, &json!({ "resourceAttributes": asked })).await
    }

    /// Allows a user what a rule says, and waits until `asked` is allowed.
    pub async fn grant(&self, user: &str, rule: &Value, asked: &Value) -> Result<()> {
        static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("{}-{number}", self.namespace);
        let role = json!({ "metadata": { "name": name }, "rules": [rule] });
        bind(&self.client, &name, &serde_json::from_value(role)?, &json!({ "kind": "User", "name": user }))
            .await?;
        let mut asked = asked.clone();
        asked["user"] = user.into();
        until_allowed(&self.client, &asked).await
    }

    /// Takes back everything that was granted to users of this scenario.
    pub async fn revoke_all(&self) -> Result<()> {
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        for binding in bindings.list(&kube::api::ListParams::default()).await? {
            let name = binding.metadata.name.unwrap_or_default();
            if name.starts_with(&format!("{}-", self.namespace)) {
                bindings.delete(&name, &kube::api::DeleteParams::default()).await?;
            }
        }
        Ok(())
    }

    /// What the proxy has asked so far. Waits for so many of each at least, for a while: a call is logged a moment after its
    /// answer.
    pub async fn calls(&self, token_reviews: usize, access_reviews: usize) -> Result<Calls> {
        let enough = wait::until("as many calls", LOGGED, || async {
            let calls = self.logged().await?;
            let enough = calls.token_reviews >= token_reviews && calls.access_reviews.len() >= access_reviews;
            if enough { Ok(calls) } else { Err(Error::Refused(format!("{calls:?}"))) }
        });
        // Too few are an observation like others.
        match enough.await {
            Ok(calls) => Ok(calls),
            Err(_) => self.logged().await,
        }
    }

    /// What is in the log by now.
    async fn logged(&self) -> Result<Calls> {
        let (reader, calls) = &mut *self.audit.lock().await;
        for request in reader.news()?.into_iter().filter(|one| one.user == self.user.name()) {
            match request.resource.as_str() {
                "tokenreviews" => calls.token_reviews += 1,
                "subjectaccessreviews" => calls.access_reviews.extend(request.body),
                _ => {}
            }
        }
        Ok(calls.clone())
    }
}
