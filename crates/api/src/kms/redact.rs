//! Redacts secrets in the messages of plugins. Plugins forward errors of their KMS, and KMS clients include requests in errors:
//! access to a status must not give access to the KMS.

/// Replaces redacted text.
const REDACTED: &str = "[redacted]";

/// Names whose value is a secret, without separators and in lower case.
const SECRET_NAMES: [&str; 14] = [
    "roleid",
    "secretid",
    "token",
    "clienttoken",
    "xvaulttoken",
    "accesstoken",
    "refreshtoken",
    "idtoken",
    "password",
    "passwd",
    "clientsecret",
    "secretaccesskey",
    "sessiontoken",
    "apikey",
];

/// Authentication schemes, which precede a secret as in the header `Authorization`.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// Prefixes of tokens that are recognized anywhere, with the minimum number of characters that must follow.
const TOKEN_PREFIXES: [(&str, usize); 8] = [
    ("hvs.", 8),
    ("hvb.", 8),
    ("hvr.", 8),
    // Vault before 1.10.
    ("s.", 24),
    ("b.", 24),
    // A JWT.
    ("eyJ", 16),
    ("AKIA", 16),
    ("ASIA", 16),
];

/// Redacts bearer tokens, Vault tokens, JWTs, AppRole IDs, passwords, and the user info and query of URLs.
#[must_use]
pub fn redact(text: &str) -> String {
    redact_words(&redact_urls(text))
}

/// Redacts user info and queries of URLs.
fn redact_urls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        out.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`' | '\\'));
        let (url, after) = after.split_at(end.unwrap_or(after.len()));
        let (location, query) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
        let (host, path) = location.split_at(location.find('/').unwrap_or(location.len()));
        match host.rsplit_once('@') {
            Some((_, host)) => out.extend([REDACTED, "@", host]),
            None => out.push_str(host),
        }
        out.push_str(path);
        if let Some(mark) = query.chars().next() {
            out.push(mark);
            out.push_str(REDACTED);
            // Keeps the punctuation of the surrounding sentence.
            out.push_str(&query[query.trim_end_matches([':', ',', '.', ')', ']', ';']).len().max(1)..]);
        }
        rest = after;
    }
    out + rest
}

/// Redacts words that are tokens, or that follow a secret name or an authentication scheme.
fn redact_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut context = Context::Other;
    while !rest.is_empty() {
        let (gap, after) = rest.split_at(rest.find(is_word_char).unwrap_or(rest.len()));
        context = context.after_gap(gap);
        out.push_str(gap);
        let (word, after) = after.split_at(after.find(|c| !is_word_char(c)).unwrap_or(after.len()));
        match context {
            Context::SecretName { assigned: true } | Context::Scheme
                if !word.is_empty() && !is_scheme(word) =>
            {
                out.push_str(REDACTED);
            }
            _ => out.push_str(&redact_token(word)),
        }
        context = Context::after_word(word);
        rest = after;
    }
    out
}

/// What precedes a word.
#[derive(Clone, Copy)]
enum Context {
    Other,
    /// A secret name, and whether an assignment like `=` followed it.
    SecretName {
        assigned: bool,
    },
    Scheme,
}

impl Context {
    fn after_word(word: &str) -> Self {
        // A query or a path may end with a secret name: `?token`, `/token`.
        let last = word.rsplit(['?', '&', '/', '.']).next().unwrap_or_default();
        let plain: String =
            last.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        if is_scheme(word) {
            Self::Scheme
        } else if SECRET_NAMES.contains(&plain.as_str()) {
            Self::SecretName { assigned: false }
        } else {
            Self::Other
        }
    }

    /// Recognizes `role_id=x`, `role_id: x`, `"role_id":"x"` and `role_id = x`, but not "the role_id is wrong".
    fn after_gap(self, gap: &str) -> Self {
        match self {
            Self::Scheme if gap.chars().all(|c| c.is_whitespace() || c == ':') => Self::Scheme,
            Self::SecretName { assigned } => {
                if gap.chars().all(|c| c.is_whitespace() || matches!(c, '=' | ':' | '"' | '\'' | '\\' | '>'))
                {
                    Self::SecretName { assigned: assigned || gap.contains(['=', ':']) }
                } else {
                    Self::Other
                }
            }
            _ => Self::Other,
        }
    }
}

fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Returns whether a character can be part of a token or a name.
fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | '~' | '%' | '$' | '!' | '*')
}

/// Redacts the token at the end of a word.
fn redact_token(word: &str) -> String {
    for (prefix, min_len) in TOKEN_PREFIXES {
        if let Some(at) = word.find(prefix) {
            let is_start = word[..at].chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric());
            if is_start && word[at + prefix.len()..].chars().count() >= min_len {
                return format!("{}{REDACTED}", &word[..at]);
            }
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_redacted_and_the_rest_is_kept() {
        for (text, redacted) in [
            ("Authorization: Bearer abc.DEF-123_4==, then", "Authorization: Bearer [redacted]==, then"),
            ("token hvs.CAESIJ7Zx0aaaaaaaaaa refused", "token [redacted] refused"),
            ("lease s.aBcDeFgHiJkLmNoPqRsTuVwX gone", "lease [redacted] gone"),
            (
                "GET https://me:pw@vault.example:8200/v1/x?list=true&token=t: 403",
                "GET https://[redacted]@vault.example:8200/v1/x?[redacted]: 403",
            ),
            (
                r#"{"role_id":"4711-aa","secret_id":"47-12"}"#,
                r#"{"role_id":"[redacted]","secret_id":"[redacted]"}"#,
            ),
            (
                "role-id=4711 secret-id: 4712 X-Vault-Token=abc",
                "role-id=[redacted] secret-id: [redacted] X-Vault-Token=[redacted]",
            ),
            ("jwt eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.sig bad", "jwt [redacted] bad"),
            ("password = hunter2\nnext", "password = [redacted]\nnext"),
        ] {
            assert_eq!(redact(text), redacted);
        }
    }

    #[test]
    fn text_without_secrets_is_unchanged() {
        for text in [
            "",
            "invalid role or secret ID",
            "the token is expired; bearer tokens are renewed hourly? no",
            "dial unix /var/run/kmsplugin/kms-1.sock: no such file",
            "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
            "POST https://kms.example/v1/keys: 503 鍵 🔑",
            "https://",
        ] {
            let redacted = redact(text);
            // "bearer tokens" is a false positive, which is acceptable.
            assert_eq!(redacted.replace("bearer [redacted]", "bearer tokens"), text);
        }
    }
}
