//! Copies bytes in both directions after a protocol switch.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::serve::peer::Peer;

/// Buffer size. Terminals and websockets send little at a time, and there may be many.
const BUFFER: usize = 8 * 1024;

/// Copies until both sides have closed. Holding `peer` keeps the client's connection slot.
pub(crate) async fn run(client: OnUpgrade, upstream: OnUpgrade, peer: Arc<Peer>) {
    let (client, upstream) = match tokio::try_join!(client, upstream) {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "connection closed before the protocol switch");
            return;
        }
    };
    let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
    // An error on one side closes both; there is nothing left to report it to.
    let _ = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER, BUFFER).await;
    drop(peer);
}
