//! A fake node RPC.

use serde_json::{Value, json};
use testbed::harness::wait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::fixture::TIMEOUT;

/// Serves responses of a function until the test ends, on all loopback addresses.
pub async fn serve(
    port: u16,
    respond: impl Fn(&str) -> Value + Send + 'static,
) -> testbed::Result<tokio::task::JoinHandle<()>> {
    // A connection of another process may have this port as its own for a moment.
    let listener =
        wait::until("the port of the RPC", TIMEOUT, || TcpListener::bind(("0.0.0.0", port))).await?;
    Ok(tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; 4096];
            let length = stream.read(&mut buffer).await.unwrap_or_default();
            let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            let body = respond(&path).to_string();
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes()).await;
        }
    }))
}

/// The responses of a synced node at height 5000.
pub fn synced_node(path: &str) -> Value {
    node_at(0xab, 5000)(path)
}

/// The responses of a synced node, whose ID repeats a byte.
pub fn node_at(id: u8, height: i64) -> impl Fn(&str) -> Value + Send + Copy {
    move |path| match path {
        "/status" => json!({
            "node_info": {"id": format!("{id:02x}").repeat(20)},
            "sync_info": {"latest_block_height": height.to_string(), "catching_up": false},
        }),
        path if path.starts_with("/block?") => {
            json!({"jsonrpc": "2.0", "id": -1, "result": {"block_id": {"hash": "CD".repeat(32)}}})
        }
        _ => json!({}),
    }
}
