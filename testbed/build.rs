//! Generates the KMS v2 server from its proto file, without protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// `TYPE_BYTES` of protobuf field types.
    const BYTES: i32 = 12;
    const INTERFACE: &str = "../crates/kms/proto";
    println!("cargo::rerun-if-changed={INTERFACE}");
    let mut interface = protox::compile(["kms.proto"], [INTERFACE])?;
    // Same wire format as `string`, but lets a broken plugin send invalid UTF-8.
    let messages = interface.file.iter_mut().flat_map(|file| &mut file.message_type);
    for message in messages.filter(|message| message.name() == "StatusResponse") {
        message.field.iter_mut().for_each(|field| field.r#type = Some(BYTES));
    }
    tonic_prost_build::configure().build_client(false).compile_fds(interface)?;
    Ok(())
}
