//! Traces reach a collector that speaks OTLP.

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

use crate::process::{Ground, Process, SOON};

/// A collector that hands on what it gets.
struct Collector(mpsc::UnboundedSender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.send(request.into_inner()).map_err(|_| Status::unavailable("the test has ended"))?;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

pub async fn each_reconciliation_is_a_trace(cx: Context) -> TestResult {
    let plane = cx.control_plane().await?;
    let ground = Ground::on(&cx, plane).await?;
    let (sender, mut received) = mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    let address = format!("http://{}", listener.local_addr()?);
    let connections = futures_util::stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let serving = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Collector(sender)));
    let collector = tokio::spawn(serving.serve_with_incoming(connections));

    let mut process = Process::start_with(&cx, plane.admin(), &ground.namespace, "traced", |orders| {
        orders.traces_to = Some(address);
    })?;
    process.leads().await?;
    ground.set("a", 1).await?;
    ground.settled("a", 1, SOON).await?;
    // What has not been sent by then is sent at the end.
    process.signal(Signal::TERM);
    assert!(process.ended(SOON).await?.0.success());

    let mut spans = Vec::new();
    while let Ok(batch) = received.try_recv() {
        for resource in batch.resource_spans {
            let told = format!("{:?}", resource.resource);
            assert!(told.contains("service.name") && told.contains("toy"), "{told}");
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    collector.abort();
    let object = format!("{}/a", ground.namespace);
    let found = spans
        .iter()
        .any(|span| span.name == "reconcile" && format!("{:?}", span.attributes).contains(&object));
    assert!(found, "no trace of {object} among {} spans", spans.len());
    Ok(())
}
