//! Attacks on a running platform, one file for each threat of `docs/security.md`. Every attempt is made for real, from the place and
//! with the credentials that the attacker has, and every refusal is checked.

pub mod account;
pub mod author;
pub mod container;
pub mod content;
pub mod kms;
pub mod network;
pub mod token;

use std::net::{IpAddr, SocketAddr};

use api::names::port;
use kube::Client;
use kube::config::AuthInfo;
use serde_json::Value;
use testbed::ControlPlane;
use testbed::Error;
use testbed::cluster::kubectl;
use testbed::demo::platform::NAMESPACE;
use testbed::harness::raw_http::RawConnection;

/// A request to the proxy of a node, with header lines that no client library would send.
struct Attempt<'a> {
    method: &'a str,
    target: &'a str,
    headers: &'a [&'a str],
    body: Option<&'a Value>,
}

impl<'a> Attempt<'a> {
    const fn get(target: &'a str) -> Self {
        Self { method: "GET", target, headers: &[], body: None }
    }

    const fn post(target: &'a str, body: &'a Value) -> Self {
        Self { method: "POST", target, headers: &[], body: Some(body) }
    }

    const fn with(self, headers: &'a [&'a str]) -> Self {
        Self { headers, ..self }
    }

    /// Sends the request to the proxy port of a pod and returns status code and body.
    async fn send(&self, host: IpAddr) -> Result<(u16, String), Error> {
        let proxy = SocketAddr::new(host, port::PROXY as u16);
        let mut connection = RawConnection::connect(proxy).await?;
        let body = self.body.map(Value::to_string).unwrap_or_default();
        let lines: String = self.headers.iter().map(|line| format!("{line}\r\n")).collect();
        let head = format!(
            "{} {} HTTP/1.1\r\nHost: sidecar\r\nContent-Length: {}\r\n{lines}\r\n",
            self.method,
            self.target,
            body.len(),
        );
        connection.send(head + &body).await?;
        let response = connection.read_response(self.method).await?;
        Ok((response.status, response.text()))
    }

    /// Sends the request and fails unless the status code is one of these.
    async fn expect(&self, host: IpAddr, codes: &[u16]) -> Result<String, Error> {
        let (code, body) = self.send(host).await?;
        let what = format!("{} {} {:?}: {code} {body}", self.method, self.target, redacted(self.headers));
        println!("refused with {code}: {} {} {:?}", self.method, self.target, redacted(self.headers));
        if codes.contains(&code) {
            Ok(body)
        } else {
            Err(Error::Other(format!("{what}, expected {codes:?}")))
        }
    }
}

/// Returns header lines without tokens.
fn redacted(headers: &[&str]) -> Vec<String> {
    headers
        .iter()
        .map(|line| line.split_once("Bearer").map_or((*line).into(), |(name, _)| format!("{name}Bearer ...")))
        .collect()
}

/// Requests a token of a ServiceAccount in the namespace of the nodes.
fn token(plane: &ControlPlane, account: &str, audience: Option<&str>) -> Result<String, Error> {
    token_in(plane, NAMESPACE, account, audience)
}

fn token_in(
    plane: &ControlPlane,
    namespace: &str,
    account: &str,
    audience: Option<&str>,
) -> Result<String, Error> {
    let audience = audience.map(|audience| format!("--audience={audience}"));
    let args = ["create", "token", account, "--namespace", namespace];
    let args: Vec<&str> = args.into_iter().chain(audience.as_deref()).collect();
    Ok(kubectl::run(plane, &args, None)?.trim().to_owned())
}

/// Returns a client of the API server that has nothing but a token.
async fn client_with(plane: &ControlPlane, token: &str) -> Result<Client, Error> {
    let mut config = plane.admin().config().await?;
    config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    Ok(Client::try_from(config)?)
}

/// Fails unless the API server rejected a request with one of these codes.
fn rejected<T>(what: &str, result: kube::Result<T>, codes: &[u16]) -> Result<(), Error> {
    match result {
        Err(kube::Error::Api(status)) if codes.contains(&status.code) => {
            println!("refused with {}: {what}", status.code);
            Ok(())
        }
        Err(error) => Err(Error::Other(format!("{what}: {error}, expected {codes:?}"))),
        Ok(_) => Err(Error::Other(format!("{what}: allowed, expected {codes:?}"))),
    }
}
