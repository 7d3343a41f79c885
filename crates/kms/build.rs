//! Makes the messages of the KMS v2 interface, without a protoc on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let interface = protox::compile(["proto/kms.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).build_client(false).compile_fds(interface)?;
    Ok(())
}
