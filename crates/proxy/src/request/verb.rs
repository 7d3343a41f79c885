//! Kubernetes verbs of HTTP methods.

use http::Method;

/// Returns the verb of a method. Unknown methods map to `*`, which only a rule that lists `*` allows. Methods
/// are case-sensitive.
pub(crate) fn for_method(method: &Method) -> &'static str {
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

    #[test]
    fn unknown_methods_map_to_star() {
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
            assert_eq!(for_method(&method.parse().unwrap()), verb, "{method}");
        }
    }
}
