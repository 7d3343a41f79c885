//! The runtime against a real API server, with injected faults. The toy controller runs as a separate process: this same binary,
//! with an environment variable set.

#![allow(clippy::expect_used, reason = "a test may panic; clippy recognizes only those of the usual runner")]

mod admin;
mod faults;
mod fixture;
mod leadership;
mod scale;
mod shutdown;
mod toy;
mod traces;
mod writes;

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::var_os(fixture::TOY_CONFIG).is_some() {
        return toy::main();
    }
    testbed::tests![
        faults::failing_watch_recovers_and_does_not_affect_others,
        faults::black_holed_watch_recovers,
        faults::invalid_object_does_not_affect_others,
        faults::failing_api_server_is_not_flooded,
        faults::api_server_restart_is_survived,
        writes::unchanged_object_causes_no_request,
        writes::removed_field_is_deleted_from_the_object,
        writes::field_of_another_manager_is_a_conflict,
        writes::stale_status_write_is_rejected,
        writes::lost_response_is_unknown_and_rejection_is_not,
        writes::delete_spares_recreated_object,
        writes::released_claim_prevents_writes,
        leadership::suspended_leader_does_not_write_after_takeover,
        leadership::unrenewable_lease_is_lost_and_reacquired,
        shutdown::sigterm_finishes_writes_and_releases_the_lease,
        admin::admin_server_exposes_probes_metrics_and_state,
        admin::admin_server_is_reachable_on_loopback_only,
        traces::each_reconcile_is_traced,
        scale::five_thousand_idle_objects,
    ]
    .run()
}
