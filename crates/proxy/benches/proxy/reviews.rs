//! Questions to the API server, counted by its audit log.

use std::time::Duration;

use testbed::Error;

use crate::contender::Contender;
use crate::load::{self, Asking, Path, Protocol};
use crate::report::Report;
use crate::tools::Tools;
use crate::world::World;

/// Requests that are asked, over so many connections.
const REQUESTS: usize = 1_000;
const CONNECTIONS: usize = 32;

/// A question is in the log a moment after its answer.
const LOGGED: Duration = Duration::from_secs(1);

/// Counts what one asks who was just started: about a caller who is good, and about a token that is none.
pub async fn play(
    world: &World,
    contender: &Contender,
    tools: &Tools,
    report: &mut Report,
) -> Result<(), Error> {
    if !contender.authorizes() {
        return Ok(());
    }
    // Of a token's form, so that it cannot be refused by its looks.
    let (signed, signature) = world.token().rsplit_once('.').unwrap_or_default();
    let garbage = format!("{signed}.{}", signature.chars().rev().collect::<String>());
    for (what, token) in [("of one caller", world.token()), ("with one bad token", &garbage)] {
        let mut audit = world.plane.audit().reader_from_now()?;
        let asking = Asking {
            world,
            contender,
            protocol: Protocol::Http1,
            path: Path::Closed,
            connections: CONNECTIONS,
        };
        load::output(asking.with_token(tools, &["-n", &REQUESTS.to_string()], token)).await?;
        tokio::time::sleep(LOGGED).await;
        let reviews = ["tokenreviews", "subjectaccessreviews"];
        let calls = audit
            .news()?
            .into_iter()
            .filter(|request| request.user == contender.name && reviews.contains(&request.resource.as_str()));
        let calls = calls.count();
        println!("  {}: {calls} questions to the API server for {REQUESTS} requests {what}", contender.name);
        report.calls(contender.name, what, calls);
    }
    Ok(())
}
