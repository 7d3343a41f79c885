//! The arguments of a reporter in the spec of its pod: which plugins it probes, how often, and where it publishes the reports. The
//! pod spec says which reports to expect without a read of the encryption configuration, which the KMS itself may encrypt.

use std::collections::BTreeMap;
use std::time::Duration;

use api::kms::KmsTarget;
use api::names::kms::flag;

/// Interval of a reporter without the flag, and of the upstream reporter.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);

/// Object of a reporter without the flag.
const DEFAULT_NAME: &str = "cluster";

/// Flag with the format of the reports.
const PUBLISH: &str = "publish";

/// Environment variables that set flags.
const VARIABLES: [(&str, &str); 4] = [
    ("OUTRIGGER_KMS_PUBLISH", PUBLISH),
    ("OUTRIGGER_KMS_TARGET", flag::TARGET),
    ("OUTRIGGER_KMS_TARGET_NAME", flag::TARGET_NAME),
    ("OUTRIGGER_KMS_INSTANCE", flag::INSTANCE),
];

/// The arguments of a reporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReporterArgs {
    /// Keys of the plugins, in the order of the sockets.
    pub keys: Vec<String>,
    /// Keys that encrypt new data; empty if the reporter is not told.
    pub write_keys: Vec<String>,
    /// Report interval.
    pub interval: Duration,
    /// Kind of the object that holds the reports, unless the reporter chooses it.
    pub target: Option<KmsTarget>,
    /// Name of that object.
    pub target_name: String,
    /// Instance of the reporter, if its node has several.
    pub instance: Option<String>,
}

impl ReporterArgs {
    /// Parses command, arguments and literal environment variables of the reporter's container. Unknown flags are ignored.
    #[must_use]
    pub fn parse(command: &[String], args: &[String], variables: &BTreeMap<String, String>) -> Self {
        let words = command.iter().chain(args).map(|word| expand(word, variables)).collect();
        let mut flags = Flags::parse(words);
        for (variable, flag) in VARIABLES {
            if let Some(value) = variables.get(variable) {
                flags.last.entry(flag.to_owned()).or_insert_with(|| value.clone());
            }
        }
        let target = match flags.get(flag::TARGET) {
            Some(target) => target.parse().ok(),
            None => {
                (flags.get(PUBLISH) == Some(KmsTarget::KmsHealth.as_str())).then_some(KmsTarget::KmsHealth)
            }
        };
        Self {
            keys: flags.sockets.iter().filter_map(|socket| socket_key(socket)).collect(),
            write_keys: flags.get(flag::WRITE_KEYS).map(split).unwrap_or_default(),
            interval: flags.get(flag::INTERVAL).and_then(parse_interval).unwrap_or(DEFAULT_INTERVAL),
            target,
            target_name: flags.get(flag::TARGET_NAME).unwrap_or(DEFAULT_NAME).to_owned(),
            instance: flags.get(flag::INSTANCE).map(str::to_owned),
        }
    }

    /// Returns whether the reporter publishes on an object. A reporter without a target chooses among those that are served.
    #[must_use]
    pub fn publishes_on(&self, target: KmsTarget, name: &str) -> bool {
        self.target.is_none_or(|own| own == target) && self.target_name == name
    }
}

/// Flags with their values. As for the reporter, sockets add up, and the last value of any other flag counts.
#[derive(Default)]
struct Flags {
    sockets: Vec<String>,
    last: BTreeMap<String, String>,
}

impl Flags {
    fn parse(words: Vec<String>) -> Self {
        let mut flags = Self::default();
        let mut words = words.into_iter().peekable();
        while let Some(word) = words.next() {
            let Some(flag) = word.strip_prefix("--") else { continue };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (flag.to_owned(), words.next_if(|next| !next.starts_with("--"))),
            };
            match value {
                Some(value) if name == flag::KMS_SOCKETS => flags.sockets.extend(split(&value)),
                Some(value) => {
                    flags.last.insert(name, value);
                }
                None => {}
            }
        }
        flags
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.last.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

fn split(list: &str) -> Vec<String> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// Returns the key of a socket: the `N` of `unix://DIR/kms-N.sock`, or the `NAME` of `NAME=unix://PATH`.
fn socket_key(socket: &str) -> Option<String> {
    let (name, path) = socket.split_once("unix://")?;
    let key = match name.strip_suffix('=') {
        Some(name) => name,
        None => path.rsplit('/').next()?.strip_prefix("kms-")?.strip_suffix(".sock")?,
    };
    (!key.is_empty()).then(|| key.to_owned())
}

fn parse_interval(text: &str) -> Option<Duration> {
    let nanoseconds = u64::try_from(api::duration::parse(text)?).ok()?;
    (nanoseconds > 0).then(|| Duration::from_nanos(nanoseconds))
}

/// Expands `$(NAME)` as the kubelet does. `$$` is a dollar sign, and a reference to an unknown variable stays as it is.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        let reference = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        let value = reference.and_then(|(name, after)| Some((variables.get(name)?, after)));
        rest = match (value, after.strip_prefix('$')) {
            (Some((value, after)), _) => {
                expanded.push_str(value);
                after
            }
            (None, escaped) => {
                expanded.push('$');
                escaped.unwrap_or(after)
            }
        };
    }
    expanded + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> ReporterArgs {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let variables = [("NODE_NAME", "a"), ("KEY", "7"), ("OUTRIGGER_KMS_INSTANCE", "b")]
            .map(|(name, value)| (name.into(), value.into()));
        ReporterArgs::parse(&["/outrigger".into(), "kms-reporter".into()], &args, &variables.into())
    }

    #[test]
    fn upstream_arguments_have_defaults() {
        let args = ReporterArgs::parse(
            &["cluster-kube-apiserver-operator".into(), "kms-health-reporter".into()],
            &[
                "--kms-sockets=unix:///var/run/kmsplugin/kms-2.sock,unix:///var/run/kmsplugin/kms-1.sock"
                    .into(),
                "--node-name=$(NODE_NAME)".into(),
                "--kubeconfig=/etc/kubernetes/kubeconfig".into(),
            ],
            &BTreeMap::new(),
        );
        assert_eq!(args.keys, ["2", "1"]);
        assert_eq!(
            (args.write_keys.len(), args.interval, args.instance.as_deref()),
            (0, DEFAULT_INTERVAL, None)
        );
        assert!(KmsTarget::ALL.into_iter().all(|target| args.publishes_on(target, "cluster")));
        assert!(!args.publishes_on(KmsTarget::KmsHealth, "other"));
    }

    #[test]
    fn all_spellings_of_flags_are_parsed() {
        let args = parse(&[
            "--kms-sockets",
            "unix:///var/run/kmsplugin/kms-$(KEY).sock",
            "--kms-sockets=vault.eu=unix:///run/vault.sock, unix:///var/run/kmsplugin/kms-1.sock",
            "--write-keys=1,vault.eu",
            "--interval=5s",
            "--interval=1m30s",
            "--target=kmshealth",
            "--target-name",
            "edge",
            "--verbose",
            "--instance=c",
        ]);
        assert_eq!(args.keys, ["7", "vault.eu", "1"]);
        assert_eq!(args.write_keys, ["1", "vault.eu"]);
        assert_eq!(args.interval, Duration::from_secs(90));
        assert_eq!(args.instance.as_deref(), Some("c"));
        assert!(args.publishes_on(KmsTarget::KmsHealth, "edge"));
        assert!(!args.publishes_on(KmsTarget::KubeApiServer, "edge"));
    }

    #[test]
    fn variables_set_flags_that_are_not_given() {
        assert_eq!(parse(&[]).instance.as_deref(), Some("b"));
        assert_eq!(parse(&["--publish=kmshealth"]).target, Some(KmsTarget::KmsHealth));
        assert_eq!(parse(&["--publish=auto"]).target, None);
    }

    #[test]
    fn invalid_values_are_ignored() {
        let args = parse(&[
            "--kms-sockets=tcp://a,unix:///run/other.sock,=unix:///a",
            "--interval=soon",
            "kms-1.sock",
        ]);
        assert_eq!((args.keys.len(), args.interval), (0, DEFAULT_INTERVAL));
    }

    #[test]
    fn references_are_expanded_as_by_the_kubelet() {
        let variables = BTreeMap::from([("A".to_owned(), "x".to_owned())]);
        for (text, expanded) in
            [("$(A)-$(B)", "x-$(B)"), ("$$(A)", "$(A)"), ("$A $", "$A $"), ("$(A", "$(A"), ("", "")]
        {
            assert_eq!(expand(text, &variables), expanded, "{text}");
        }
    }
}
