//! How many nodes of a fleet may be unavailable at a time.

use api::fleet::UpdateStrategy;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Returns the number of nodes that may be unavailable, of those that were available once. Without a limit, these are all: a chain
/// that halts for an upgrade needs every node to restart.
pub(super) fn max_unavailable(strategy: &UpdateStrategy, established: usize) -> usize {
    let limit = match &strategy.max_unavailable {
        None => return usize::MAX,
        Some(IntOrString::Int(count)) => usize::try_from(*count).unwrap_or(0),
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|percent| percent.parse().ok()).unwrap_or(0);
            established.saturating_mul(percent) / 100
        }
    };
    limit.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_rounded_down_to_at_least_one() {
        let limit = |max: IntOrString, established| {
            let strategy = UpdateStrategy { max_unavailable: Some(max), ..UpdateStrategy::default() };
            max_unavailable(&strategy, established)
        };
        let percent = |text: &str, established| limit(IntOrString::String(text.into()), established);
        assert_eq!((percent("20%", 3), percent("20%", 14), percent("100%", 5)), (1, 2, 5));
        assert_eq!((limit(IntOrString::Int(2), 1), limit(IntOrString::Int(7), 50)), (2, 7));
        assert_eq!(max_unavailable(&UpdateStrategy::default(), 3), usize::MAX);
    }
}
