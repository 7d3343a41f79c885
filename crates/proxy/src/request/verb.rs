//! The Kubernetes verb of an HTTP method.

use http::Method;

/// The verb. What is not known is `*`, which only a rule that lists `*` allows; methods are told apart by case.
pub(crate) fn of(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "*",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// VERB-01.
    #[test]
    fn five_methods_have_verbs_and_all_others_are_everything() {
        let verbs = [
            ("GET", "get"),
            ("POST", "create"),
            ("PUT", "update"),
            ("PATCH", "patch"),
            ("DELETE", "delete"),
            ("HEAD", "*"),
            ("OPTIONS", "*"),
            ("TRACE", "*"),
            ("get", "*"),
            ("PROPFIND", "*"),
        ];
        for (method, verb) in verbs {
            assert_eq!(of(&method.parse().unwrap()), verb, "{method}");
        }
    }
}
