//! Kinds that reports stand on.

use super::target::Target;
pub(super) use crate::resource::{
    Authentication, ClusterOperator, Kind, KmsHealth, KubeApiServer, OpenShiftApiServer, Raw, named,
};

/// A kind that reports stand on.
pub(super) trait Reported: Kind {
    const TARGET: Target;
}

macro_rules! reported {
    ($($kind:ident)*) => {
        $(impl Reported for $kind {
            const TARGET: Target = Target::$kind;
        })*
    };
}

reported!(KubeApiServer OpenShiftApiServer Authentication KmsHealth);
