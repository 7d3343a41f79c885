//! Runs work only while this process is the leader.

use std::future::Future;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{Claim, Leadership};

/// Runs `work` each time this process becomes the leader and aborts it when the claim is lost. Returns once `stop` is
/// cancelled: `work` gets the same token and is awaited, not aborted.
pub async fn run_while_leading<F, Fut>(
    mut leadership: watch::Receiver<Leadership>,
    stop: CancellationToken,
    work: F,
) where
    F: Fn(Claim, CancellationToken) -> Fut,
    Fut: Future<Output = ()>,
{
    loop {
        let elected = tokio::select! {
            () = stop.cancelled() => return,
            elected = leadership.wait_for(|now| matches!(now, Leadership::Leading(_))) => elected.map(|now| now.clone()),
        };
        // An error means that the elector task has exited, which shuts the process down.
        let Ok(Leadership::Leading(claim)) = elected else { return };
        tokio::select! {
            biased;
            () = claim.lost() => {}
            () = work(claim.clone(), stop.clone()) => {
                if stop.is_cancelled() {
                    return;
                }
            }
        }
        // The receiver still holds the lost claim: wait until it is replaced.
        if leadership.wait_for(|now| !matches!(now, Leadership::Leading(_))).await.is_err() {
            return;
        }
    }
}
