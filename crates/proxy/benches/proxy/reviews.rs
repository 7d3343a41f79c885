//! Counts reviews created at the API server, from its audit log.

use std::time::Duration;

use testbed::Error;

use crate::contender::Contender;
use crate::environment::Environment;
use crate::load::{self, LoadRequest, Path, Protocol};
use crate::report::Report;
use crate::tools::Tools;

/// Requests, and the connections they use.
const REQUESTS: usize = 1_000;
const CONNECTIONS: usize = 32;

/// Delay until a review is in the audit log.
const AUDIT_DELAY: Duration = Duration::from_secs(1);

/// Counts the reviews of a freshly started contender: for a valid caller, and for an invalid token.
pub async fn measure(
    environment: &Environment,
    contender: &Contender,
    tools: &Tools,
    report: &mut Report,
) -> Result<(), Error> {
    if !contender.authorizes() {
        return Ok(());
    }
    // Well-formed, so that it cannot be rejected without a review.
    let (signed, signature) = environment.token().rsplit_once('.').unwrap_or_default();
    let invalid_token = format!("{signed}.{}", signature.chars().rev().collect::<String>());
    for (case, token) in [("of one caller", environment.token()), ("with one invalid token", &invalid_token)]
    {
        let mut audit = environment.plane.audit().reader_from_now()?;
        let load_request = LoadRequest {
            environment,
            contender,
            protocol: Protocol::Http1,
            path: Path::Authorized,
            connections: CONNECTIONS,
        };
        load::output(load_request.with_token(tools, &["-n", &REQUESTS.to_string()], token)).await?;
        tokio::time::sleep(AUDIT_DELAY).await;
        let review_resources = ["tokenreviews", "subjectaccessreviews"];
        let reviews = audit.read_new()?.into_iter().filter(|request| {
            request.user == contender.name && review_resources.contains(&request.resource.as_str())
        });
        let reviews = reviews.count();
        println!("  {}: {reviews} reviews for {REQUESTS} requests {case}", contender.name);
        report.reviews(contender.name, case, reviews);
    }
    Ok(())
}
