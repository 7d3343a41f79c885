//! A codec that passes message bytes through. Messages are decoded after the call, which tells a malformed response from an
//! error status that the plugin returned.

use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

pub(super) use prost::bytes::Bytes;
use prost::bytes::{Buf, BufMut};

/// The response to Status with strings as raw bytes, so that invalid UTF-8 is reported as such and not as a missing response.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusBytes {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) version: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) healthz: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key_id: Vec<u8>,
}

/// Passes message bytes through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
