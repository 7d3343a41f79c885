//! Work that is done only while this process leads.

use std::future::Future;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::lease::{Claim, Leadership};

/// Runs `work` each time this process comes to lead, and cuts it off when it no longer does. Ends when told to: `work` is
/// given the same `stop`, and is left to end by itself then.
pub async fn while_leading<F, Fut>(
    mut leadership: watch::Receiver<Leadership>,
    stop: CancellationToken,
    work: F,
) where
    F: Fn(Claim, CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    loop {
        let seen = tokio::select! {
            () = stop.cancelled() => return,
            seen = leadership.wait_for(|now| matches!(now, Leadership::Leading(_))) => seen.map(|now| now.clone()),
        };
        // The campaign is gone, which ends the process; there is nothing left to wait for.
        let Ok(Leadership::Leading(claim)) = seen else { return };
        tokio::select! {
            biased;
            () = claim.lost() => {}
            () = work(claim.clone(), stop.clone()) => {
                if stop.is_cancelled() {
                    return;
                }
            }
        }
        // Wait for what comes after this claim, not for this claim again.
        if leadership.wait_for(|now| !matches!(now, Leadership::Leading(_))).await.is_err() {
            return;
        }
    }
}
