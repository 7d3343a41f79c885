//! Traces are exported to an OTLP collector.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use rustix::process::Signal;
use testbed::{Context, TestResult};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};

use crate::fixture::{Fixture, Process, SOON};

/// A collector that forwards what it receives.
struct Collector(mpsc::UnboundedSender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.send(request.into_inner()).map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

pub async fn each_reconcile_is_traced(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let fixture = Fixture::new(&cx, plane).await?;
    let (sender, mut received) = mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let address = format!("http://{}", listener.local_addr()?);
    let connections = futures_util::stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let serving = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Collector(sender)));
    let collector = tokio::spawn(serving.serve_with_incoming(connections));

    let mut process = Process::start_with(&cx, plane.admin(), &fixture.namespace, "traced", |config| {
        config.otlp_endpoint = Some(address);
    })?;
    process.wait_leading().await?;
    fixture.set("a", 1).await?;
    fixture.wait_reconciled("a", 1, SOON).await?;
    // The shutdown flushes pending traces.
    process.signal(Signal::TERM);
    assert!(process.wait_exit(SOON).await?.0.success());

    let mut spans = Vec::new();
    while let Ok(batch) = received.try_recv() {
        for resource in batch.resource_spans {
            let attributes = format!("{:?}", resource.resource);
            assert!(attributes.contains("service.name") && attributes.contains("toy"), "{attributes}");
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    collector.abort();
    let object = format!("{}/a", fixture.namespace);
    let found = spans
        .iter()
        .any(|span| span.name == "reconcile" && format!("{:?}", span.attributes).contains(&object));
    assert!(found, "no trace of {object} among {} spans", spans.len());
    Ok(())
}
