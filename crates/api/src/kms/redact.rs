//! Secrets in the text of plugins. A plugin tells what its KMS told it, and clients of a KMS put into errors what they sent: who
//! may read a status must not be able to log in with it.

/// Stands for what was taken out.
const REDACTED: &str = "[redacted]";

/// Words whose value is a secret, without separators and in lower case.
const SECRET_WORDS: [&str; 14] = [
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

/// Words that stand before a secret, as in the header `Authorization`.
const SCHEMES: [&str; 2] = ["bearer", "basic"];

/// Beginnings of tokens that need no word before them, with the fewest characters that must follow.
const TOKENS: [(&str, usize); 8] = [
    ("hvs.", 8),
    ("hvb.", 8),
    ("hvr.", 8),
    // Vault's before 1.10.
    ("s.", 24),
    ("b.", 24),
    // A JWT.
    ("eyJ", 16),
    ("AKIA", 16),
    ("ASIA", 16),
];

/// The text without bearer tokens, Vault tokens, user names and queries of addresses, and ids of AppRoles.
#[must_use]
pub fn redact(text: &str) -> String {
    words(&addresses(text))
}

/// Takes user names and queries out of addresses.
fn addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        out.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`' | '\\'));
        let (address, after) = after.split_at(end.unwrap_or(after.len()));
        let (place, query) = address.split_at(address.find(['?', '#']).unwrap_or(address.len()));
        let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
        match host.rsplit_once('@') {
            Some((_, host)) => out.extend([REDACTED, "@", host]),
            None => out.push_str(host),
        }
        out.push_str(path);
        if let Some(mark) = query.chars().next() {
            out.push(mark);
            out.push_str(REDACTED);
            // Punctuation of the sentence around it.
            out.push_str(&query[query.trim_end_matches([':', ',', '.', ')', ']', ';']).len().max(1)..]);
        }
        rest = after;
    }
    out + rest
}

/// Takes out words that are secrets, by themselves or by what stands before them.
fn words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = Before::Other;
    while !rest.is_empty() {
        let (gap, after) = rest.split_at(rest.find(is_word).unwrap_or(rest.len()));
        before = before.over(gap);
        out.push_str(gap);
        let (word, after) = after.split_at(after.find(|c| !is_word(c)).unwrap_or(after.len()));
        match before {
            Before::SecretWord { assigned: true } | Before::Scheme
                if !word.is_empty() && !is_scheme(word) =>
            {
                out.push_str(REDACTED);
            }
            _ => out.push_str(&token(word)),
        }
        before = Before::of(word);
        rest = after;
    }
    out
}

/// What stands before a word.
#[derive(Clone, Copy)]
enum Before {
    Other,
    /// A word whose value is a secret, and whether something like `=` came since.
    SecretWord {
        assigned: bool,
    },
    Scheme,
}

impl Before {
    fn of(word: &str) -> Self {
        // A query, or a path, may end with one: `?token`, `/token`.
        let last = word.rsplit(['?', '&', '/', '.']).next().unwrap_or_default();
        let plain: String =
            last.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
        if is_scheme(word) {
            Self::Scheme
        } else if SECRET_WORDS.contains(&plain.as_str()) {
            Self::SecretWord { assigned: false }
        } else {
            Self::Other
        }
    }

    /// `role_id=x`, `role_id: x`, `"role_id":"x"`, `role_id = x`, but not "the role_id is wrong".
    fn over(self, gap: &str) -> Self {
        match self {
            Self::Scheme if gap.chars().all(|c| c.is_whitespace() || c == ':') => Self::Scheme,
            Self::SecretWord { assigned } => {
                if gap.chars().all(|c| c.is_whitespace() || matches!(c, '=' | ':' | '"' | '\'' | '\\' | '>'))
                {
                    Self::SecretWord { assigned: assigned || gap.contains(['=', ':']) }
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

/// Characters that tokens and names are made of.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | '~' | '%' | '$' | '!' | '*')
}

/// A word without the token that it ends with.
fn token(word: &str) -> String {
    for (begin, least) in TOKENS {
        if let Some(at) = word.find(begin) {
            let starts = word[..at].chars().next_back().is_none_or(|c| !c.is_ascii_alphanumeric());
            if starts && word[at + begin.len()..].chars().count() >= least {
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
    fn secrets_are_taken_out_and_the_rest_stays() {
        for (said, shown) in [
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
            assert_eq!(redact(said), shown);
        }
    }

    #[test]
    fn text_without_secrets_stays() {
        for text in [
            "",
            "invalid role or secret ID",
            "the token is expired; bearer tokens are renewed hourly? no",
            "dial unix /var/run/kmsplugin/kms-1.sock: no such file",
            "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
            "POST https://kms.example/v1/keys: 503 鍵 🔑",
            "https://",
        ] {
            let shown = redact(text);
            // "bearer tokens" is read as a token: better too much than too little.
            assert_eq!(shown.replace("bearer [redacted]", "bearer tokens"), text);
        }
    }
}
