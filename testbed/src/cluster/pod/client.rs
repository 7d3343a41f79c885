//! HTTP client for tests inside pods. Verifies server certificates.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::error::{Error, IoContext, Result};
use crate::tls;

/// Fetches a URL; a status other than 2xx is an error that contains the response.
pub(super) fn get(url: &Uri, ca: Option<&Path>, token: Option<&Path>, timeout: Duration) -> Result<String> {
    let host = url.host().ok_or_else(|| Error::Other(format!("invalid URL {url}: no host")))?.to_owned();
    let is_https = url.scheme_str() == Some("https");
    let port = url.port_u16().unwrap_or(if is_https { 443 } else { 80 });
    let stream = connect(&host, port, timeout).context(|| format!("connecting to {host}:{port}"))?;
    let request = request(url, &host, token)?;
    let response = if is_https {
        let ca = ca.ok_or_else(|| Error::Other("https requires --authority FILE".into()))?;
        let pem = read(ca)?;
        let name = ServerName::try_from(host.clone())
            .map_err(|error| Error::Other(format!("invalid server name {host}: {error}")))?;
        let session = ClientConnection::new(Arc::new(tls::client(&pem, None)?), name)?;
        exchange(StreamOwned::new(session, stream), &request)
    } else {
        exchange(stream, &request)
    };
    parse_body(&response.context(|| format!("requesting {url}"))?, url)
}

fn connect(host: &str, port: u16, timeout: Duration) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::other("no address found");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn request(url: &Uri, host: &str, token: Option<&Path>) -> Result<String> {
    let path = url.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    // HTTP/1.0: the response ends with the connection and is never chunked.
    let mut request = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: application/json, */*\r\n");
    if let Some(token) = token {
        request.push_str(&format!("Authorization: Bearer {}\r\n", read(token)?.trim()));
    }
    request.push_str("\r\n");
    Ok(request)
}

fn exchange(mut stream: impl Read + Write, request: &str) -> std::io::Result<String> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    Ok(String::from_utf8_lossy(&response).into_owned())
}

fn parse_body(response: &str, url: &Uri) -> Result<String> {
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((response, ""));
    let status = head.lines().next().unwrap_or_default();
    let code = status.split_whitespace().nth(1).unwrap_or_default();
    if code.starts_with('2') {
        return Ok(body.to_owned());
    }
    Err(Error::Other(format!("{url} returned {status:?}: {}", body.trim())))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_returned_or_part_of_the_error() {
        let url = "http://a/b".parse().unwrap();
        assert_eq!(
            parse_body("HTTP/1.0 200 OK\r\nA: b\r\n\r\nhello\r\n\r\nagain", &url).unwrap(),
            "hello\r\n\r\nagain"
        );
        let error = parse_body("HTTP/1.0 403 Forbidden\r\n\r\nnot you", &url).unwrap_err().to_string();
        assert_eq!(error, "http://a/b returned \"HTTP/1.0 403 Forbidden\": not you");
        assert!(parse_body("", &url).is_err());
    }

    #[test]
    fn request_sends_the_token_from_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        fs::write(&token, "secret\n").unwrap();
        let request = request(&"https://a:1/b?c=d".parse().unwrap(), "a", Some(&token)).unwrap();
        assert!(request.starts_with("GET /b?c=d HTTP/1.0\r\nHost: a\r\n"), "{request}");
        assert!(request.ends_with("\r\nAuthorization: Bearer secret\r\n\r\n"), "{request}");
    }
}
