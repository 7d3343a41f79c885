//! Resources that hold reports.

use api::kms::KmsTarget;

pub(super) use crate::resource::{
    Authentication, ClusterOperator, KmsHealth, KubeApiServer, OpenShiftApiServer, ResourceKind,
    UntypedObject, watch_by_name,
};

/// A resource that holds reports.
pub(super) trait TargetResource: ResourceKind {
    const TARGET: KmsTarget;
}

macro_rules! target_resources {
    ($($kind:ident)*) => {
        $(impl TargetResource for $kind {
            const TARGET: KmsTarget = KmsTarget::$kind;
        })*
    };
}

target_resources!(KubeApiServer OpenShiftApiServer Authentication KmsHealth);
