//! Whether a validator can be taken down without halting its chain: a block needs more than two thirds of the voting power.

use super::observed::ChainValidator;

/// The voting power of a chain, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Power {
    /// Power of the whole chain.
    pub(super) total: i64,
    /// Power of validators that are down, and of those that are taken down in this reconcile.
    pub(super) down: i64,
}

/// Whether a validator may be taken down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The others produce blocks.
    Safe,
    /// The chain would halt until others are back.
    Held,
    /// The chain halts whenever this validator is down.
    Impossible,
}

impl Power {
    /// Returns the power of a chain; nothing if the power of a validator is unknown. A total that no node reports is that of the
    /// validators in this cluster.
    pub(super) fn of(validators: &[ChainValidator], total: Option<i64>) -> Option<Self> {
        let powers: Option<Vec<i64>> = validators.iter().map(|validator| validator.power).collect();
        let known: i64 = powers?.iter().sum();
        let down = validators
            .iter()
            .filter(|validator| !validator.is_available)
            .filter_map(|validator| validator.power)
            .sum();
        let total = total.unwrap_or(known).max(known);
        (total > 0).then_some(Self { total, down })
    }

    /// Returns whether a validator of this power may be taken down, in addition to those that are down.
    pub(super) fn allows(self, power: i64) -> Verdict {
        let halts = |down: i64| down.saturating_mul(3) >= self.total;
        if !halts(self.down.saturating_add(power)) {
            Verdict::Safe
        } else if halts(power) {
            Verdict::Impossible
        } else {
            Verdict::Held
        }
    }

    /// Returns the power after a validator was taken down.
    pub(super) fn without(self, power: i64) -> Self {
        Self { down: self.down.saturating_add(power), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validators(powers: &[(i64, bool)]) -> Vec<ChainValidator> {
        let validator = |(index, (power, is_available)): (usize, &(i64, bool))| ChainValidator {
            name: format!("v-{index}"),
            namespace: "sei".into(),
            power: Some(*power),
            is_available: *is_available,
        };
        powers.iter().enumerate().map(validator).collect()
    }

    fn power(powers: &[(i64, bool)]) -> Power {
        Power::of(&validators(powers), None).unwrap()
    }

    #[test]
    fn one_of_four_equal_validators_may_be_down() {
        let all_up = power(&[(10, true); 4]);
        assert_eq!(all_up.allows(10), Verdict::Safe);
        assert_eq!(all_up.without(10).allows(10), Verdict::Held);
        assert_eq!(power(&[(10, true), (10, true), (10, true), (10, false)]).allows(10), Verdict::Held);
    }

    #[test]
    fn exactly_a_third_halts_the_chain() {
        assert_eq!(power(&[(10, true); 3]).allows(10), Verdict::Impossible);
        assert_eq!(power(&[(10, true), (10, true), (11, true)]).allows(10), Verdict::Safe);
    }

    #[test]
    fn validator_with_a_third_is_impossible_and_others_are_not() {
        let whale = power(&[(40, true), (20, true), (20, true), (20, true)]);
        assert_eq!((whale.allows(20), whale.allows(40)), (Verdict::Safe, Verdict::Impossible));
    }

    #[test]
    fn validators_outside_of_the_cluster_count() {
        let four = validators(&[(10, true); 4]);
        assert_eq!(Power::of(&four, Some(100)).unwrap().without(10).without(10).allows(10), Verdict::Safe);
        assert_eq!(Power::of(&four, Some(7)).unwrap().total, 40, "a report that is too small is outdated");
    }

    #[test]
    fn unknown_power_is_not_guessed() {
        let mut four = validators(&[(10, true); 4]);
        four[2].power = None;
        assert_eq!(Power::of(&four, Some(40)), None);
        assert_eq!(Power::of(&[], None), None);
    }
}
