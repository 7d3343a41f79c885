//! HTTP/2 frames, encoded by hand, including those that no library sends.

use std::time::Duration;

use super::RawConnection;
use crate::error::Result;

/// Client connection preface with an empty SETTINGS frame.
#[must_use]
pub fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(0x4, 0, 0, &[]));
    bytes
}

/// Encodes one frame.
#[must_use]
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Encodes a header block with literal, never indexed fields and no compression.
#[must_use]
pub fn header_block<N: AsRef<[u8]>, V: AsRef<[u8]>>(fields: &[(N, V)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0x10);
        encode_string(&mut bytes, name.as_ref());
        encode_string(&mut bytes, value.as_ref());
    }
    bytes
}

fn encode_string(bytes: &mut Vec<u8>, text: &[u8]) {
    // Integer with a 7-bit prefix.
    if text.len() < 127 {
        bytes.push(text.len() as u8);
    } else {
        bytes.push(127);
        let mut left = text.len() - 127;
        while left >= 128 {
            bytes.push((left % 128 + 128) as u8);
            left /= 128;
        }
        bytes.push(left as u8);
    }
    bytes.extend(text);
}

/// Encodes a request without body as a single HEADERS frame.
#[must_use]
pub fn request<N: AsRef<[u8]>, V: AsRef<[u8]>>(stream: u32, fields: &[(N, V)]) -> Vec<u8> {
    frame(0x1, 0x5, stream, &header_block(fields))
}

/// Encodes RST_STREAM with CANCEL.
#[must_use]
pub fn rst_stream(stream: u32) -> Vec<u8> {
    frame(0x3, 0, stream, &8_u32.to_be_bytes())
}

/// What a server sent on a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFrames {
    /// Status codes by stream.
    pub statuses: Vec<(u32, u16)>,
    /// Error codes of reset streams.
    pub resets: Vec<(u32, u32)>,
    /// Error code of GOAWAY.
    pub goaway: Option<u32>,
    /// Whether the connection was closed.
    pub closed: bool,
}

/// Reads frames until `enough`, the end of the connection, or the timeout.
pub async fn read_until(
    wire: &mut RawConnection,
    timeout: Duration,
    enough: impl Fn(&ServerFrames) -> bool,
) -> Result<ServerFrames> {
    let mut received = ServerFrames::default();
    let mut bytes = Vec::new();
    let deadline = tokio::time::Instant::now() + timeout;
    while !enough(&received) {
        while let Some(length) = frame_length(&bytes) {
            let frame: Vec<u8> = bytes.drain(..length).collect();
            record(&mut received, &frame);
            // SETTINGS must be acknowledged, or the server closes the connection.
            if frame[3] == 0x4 && frame[4] & 1 == 0 {
                wire.send(self::frame(0x4, 1, 0, &[])).await?;
            }
        }
        if enough(&received) {
            break;
        }
        match tokio::time::timeout_at(deadline, wire.read()).await {
            Ok(Ok(more)) if !more.is_empty() => bytes.extend(more),
            Ok(_) => {
                received.closed = true;
                break;
            }
            Err(_) => break,
        }
    }
    Ok(received)
}

fn frame_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..9)?;
    let length = 9 + u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    (bytes.len() >= length).then_some(length)
}

fn record(received: &mut ServerFrames, frame: &[u8]) {
    let number = |at: usize| {
        frame.get(at..at + 4).map_or(0, |four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]))
    };
    let stream = number(5) & 0x7fff_ffff;
    match frame[3] {
        0x1 => received.statuses.push((stream, parse_status(&frame[9..]))),
        0x3 => received.resets.push((stream, number(9))),
        0x7 => received.goaway = Some(number(13)),
        _ => {}
    }
}

/// Returns the status code of a response header block; 0 for encodings that are not supported here.
fn parse_status(block: &[u8]) -> u16 {
    match block.first() {
        // A dynamic table size update may precede it.
        Some(0x20..=0x3f) => parse_status(&block[1..]),
        Some(0x88) => 200,
        Some(0x89) => 204,
        Some(0x8b) => 304,
        Some(0x8c) => 400,
        Some(0x8d) => 404,
        Some(0x8e) => 500,
        // Literal with the indexed name `:status`.
        Some(0x08..=0x0e | 0x48..=0x4e) => parse_literal(&block[1..]),
        _ => 0,
    }
}

fn parse_literal(value: &[u8]) -> u16 {
    let Some(length) = value.first() else { return 0 };
    let text = value.get(1..1 + usize::from(length & 0x7f)).unwrap_or_default();
    let digits = if length & 0x80 == 0 { text.to_vec() } else { decode_digits(text) };
    String::from_utf8_lossy(&digits).parse().unwrap_or(0)
}

/// Decodes Huffman-coded digits: 0 to 2 have five bits, the others six.
fn decode_digits(text: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = text.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let number = |bits: &[u8]| bits.iter().fold(0_u8, |sum, bit| sum << 1 | bit);
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(five) = bits.get(at..at + 5).map(number) {
        if five < 3 {
            found.push(b'0' + five);
            at += 5;
        } else if let Some(six @ 25..=31) = bits.get(at..at + 6).map(number) {
            found.push(b'3' + six - 25);
            at += 6;
        } else {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_codes_are_decoded() {
        assert_eq!(parse_status(&[0x88]), 200);
        assert_eq!(parse_status(&[0x48, 0x03, b'4', b'0', b'1']), 401);
        // 403 and 502, Huffman-coded: 011010 00000 011001, 011011 00000 00010, padded with ones.
        assert_eq!(parse_status(&[0x48, 0x83, 0b0110_1000, 0b0000_1100, 0b1111_1111]), 403);
        assert_eq!(parse_status(&[0x20, 0x48, 0x82, 0b0110_1100, 0b0000_0010]), 502);
    }
}
