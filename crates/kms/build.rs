//! Generates the KMS v2 messages with a pure Rust protobuf compiler, so that builds need no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(["proto/kms.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).build_client(false).compile_fds(descriptors)?;
    Ok(())
}
