//! nginx as the upstream of all contenders, and as the proxy that does not authorize.

use std::path::Path;

use testbed::process::{Process, Program};
use testbed::{Error, Site};

/// Response size: that of a task's state.
const RESPONSE_BYTES: usize = 200;

/// Configuration shared by both. One process, so that its CPU time is easy to read; no limits that the
/// proxies do not have.
const TEMPLATE: &str =
    "daemon off; master_process off; pid NAME.pid; error_log stderr crit; worker_rlimit_nofile 20000;
events { worker_connections 16384; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 300s;
  client_body_temp_path NAME-body; proxy_temp_path NAME-proxy; fastcgi_temp_path NAME-fastcgi;
  uwsgi_temp_path NAME-uwsgi; scgi_temp_path NAME-scgi;
SERVERS
}
";

/// Starts the upstream: HTTP/1.1 over TCP and over a Unix socket, and HTTP/2.
pub fn upstream(
    site: &Site,
    nginx: &Path,
    plain: &str,
    socket: &Path,
    http2: &str,
) -> Result<Process, Error> {
    let body = "a".repeat(RESPONSE_BYTES);
    let server = |listen: &str| {
        format!(
            "  server {{ listen {listen}; location / {{ default_type text/plain; return 200 \"{body}\"; }} }}\n"
        )
    };
    start(
        site,
        nginx,
        "upstream",
        &(server(plain)
            + &server(&format!("unix:{}", socket.display()))
            + &server(&format!("{http2} http2"))),
    )
}

/// Starts the baseline proxy, with keep-alive connections to the upstream, as the proxies use.
pub fn baseline(
    site: &Site,
    nginx: &Path,
    plain: &str,
    http2: &str,
    upstream: &str,
) -> Result<Process, Error> {
    let server = |listen: &str| {
        format!(
            "  server {{ listen {listen}; location / {{ proxy_pass http://upstream; proxy_http_version 1.1; \
             proxy_set_header Connection \"\"; }} }}\n"
        )
    };
    let servers = format!(
        "  upstream upstream {{ server {upstream}; keepalive 1024; keepalive_requests 1000000000; }}\n{}{}",
        server(plain),
        server(&format!("{http2} http2"))
    );
    start(site, nginx, "baseline", &servers)
}

fn start(site: &Site, nginx: &Path, name: &str, servers: &str) -> Result<Process, Error> {
    let file = site.dir().join(format!("{name}.conf"));
    std::fs::write(&file, TEMPLATE.replace("SERVERS", servers).replace("NAME", name))
        .map_err(|source| Error::Io { what: format!("writing {}", file.display()), source })?;
    Program::new(name, nginx).arg("-p").arg(site.dir()).arg("-c").arg(&file).start(site)
}
