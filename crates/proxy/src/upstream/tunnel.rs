//! Bytes in both directions, after client and upstream have agreed on another protocol.

use std::sync::Arc;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::serve::peer::Peer;

/// Bytes that are read at once. Terminals and websockets send little at a time, and there may be many.
const BUFFER: usize = 8 * 1024;

/// Copies until both sides have ended. The client's place among the connections is held as long.
pub(crate) async fn run(client: OnUpgrade, upstream: OnUpgrade, peer: Arc<Peer>) {
    let (client, upstream) = match tokio::try_join!(client, upstream) {
        Ok(both) => both,
        Err(error) => {
            tracing::debug!(%error, "a connection ended before it was switched to another protocol");
            return;
        }
    };
    let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
    // Who breaks off ends both; there is nobody left to be told.
    let _ = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut upstream, BUFFER, BUFFER).await;
    drop(peer);
}
