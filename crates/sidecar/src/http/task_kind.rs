//! The header with the type of a submitted task. The proxy authorizes by it, so that it must agree with the body, and it must not
//! appear where nothing compares it.

use api::sidecar_wire::TASK_KIND_HEADER;
use http::HeaderMap;

/// Returns the task type in the header, or the error.
pub(super) fn read(headers: &HeaderMap, is_submission: bool) -> Result<Option<String>, String> {
    let mut kinds = headers.get_all(TASK_KIND_HEADER).iter();
    let Some(kind) = kinds.next() else { return Ok(None) };
    if !is_submission {
        return Err(format!(
            "{TASK_KIND_HEADER} is only allowed when a task is submitted: remove the header"
        ));
    }
    if kinds.next().is_some() {
        return Err(format!("more than one {TASK_KIND_HEADER} header: send one"));
    }
    Ok(Some(String::from_utf8_lossy(kind.as_bytes()).into_owned()))
}

/// Fails if the header names another type than the body.
pub(super) fn check(kind: Option<&str>, task_type: &str) -> Result<(), String> {
    match kind {
        Some(kind) if kind != task_type => Err(format!(
            "{TASK_KIND_HEADER} differs from the type in the body: set it to that type, or remove the header"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn header_must_match_the_body_and_occur_once() {
        let mut headers = HeaderMap::new();
        assert_eq!(read(&headers, true), Ok(None));
        assert_eq!(read(&headers, false), Ok(None));
        headers.append(TASK_KIND_HEADER, HeaderValue::from_static("mark-ready"));
        assert_eq!(read(&headers, true), Ok(Some("mark-ready".into())));
        assert!(read(&headers, false).is_err());
        headers.append(TASK_KIND_HEADER, HeaderValue::from_static("mark-ready"));
        assert!(read(&headers, true).is_err());
        for (kind, is_valid) in [
            (None, true),
            (Some("mark-ready"), true),
            (Some(""), false),
            (Some("Mark-Ready"), false),
            (Some("mark-ready,reset-data"), false),
        ] {
            assert_eq!(check(kind, "mark-ready").is_ok(), is_valid, "{kind:?}");
        }
    }
}
