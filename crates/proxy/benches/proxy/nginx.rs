//! nginx: the upstream of everybody, and the proxy that authorizes nothing.

use std::path::Path;

use testbed::process::{Process, Program};
use testbed::{Error, Site};

/// What the upstream answers: as long as the state of a task.
const ANSWER_BYTES: usize = 200;

/// What is the same for both. One process, so that what it takes can be read off it; no limit that a proxy would not have.
const FRAME: &str =
    "daemon off; master_process off; pid NAME.pid; error_log stderr crit; worker_rlimit_nofile 20000;
events { worker_connections 16384; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 300s;
  client_body_temp_path NAME-body; proxy_temp_path NAME-proxy; fastcgi_temp_path NAME-fastcgi;
  uwsgi_temp_path NAME-uwsgi; scgi_temp_path NAME-scgi;
SERVERS
}
";

/// Starts the upstream.
pub fn upstream(site: &Site, nginx: &Path, plain: &str, http2: &str) -> Result<Process, Error> {
    let answer = "a".repeat(ANSWER_BYTES);
    let server = |listen: &str| {
        format!(
            "  server {{ listen {listen}; location / {{ default_type text/plain; return 200 \"{answer}\"; }} }}\n"
        )
    };
    start(site, nginx, "upstream", &(server(plain) + &server(&format!("{http2} http2"))))
}

/// Starts the ceiling, with connections to the upstream that are kept, as proxies keep theirs.
pub fn ceiling(
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
    start(site, nginx, "ceiling", &servers)
}

fn start(site: &Site, nginx: &Path, name: &str, servers: &str) -> Result<Process, Error> {
    let file = site.dir().join(format!("{name}.conf"));
    std::fs::write(&file, FRAME.replace("SERVERS", servers).replace("NAME", name))
        .map_err(|source| Error::Io { what: format!("writing {}", file.display()), source })?;
    Program::new(name, nginx).arg("-p").arg(site.dir()).arg("-c").arg(&file).start(site)
}
