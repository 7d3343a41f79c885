//! Messages as bytes. They are decoded after the call, so that an answer that cannot be read is told from an error that the plugin
//! answers with.

use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

pub(super) use prost::bytes::Bytes;
use prost::bytes::{Buf, BufMut};

/// The answer of Status, with its texts as they came: a plugin that answers text which is none must be told from one that does not
/// answer.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StatusBytes {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) version: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) healthz: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key_id: Vec<u8>,
}

/// Passes messages through.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raw;

impl Codec for Raw {
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

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
