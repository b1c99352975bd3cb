//! Messages as prost writes and reads them; those with lists only once it is known that these are not too long.
//!
//! An item of a list may have two bytes on the wire, and up to 96 in memory: prost would make gigabytes of a message of
//! [`super::MESSAGE_BYTES`]. So the items are counted before one of them is read.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf as _;
use prost::encoding::decode_varint;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::message::{Bundle, Package};
use crate::document::{self, MAX_ITEMS};

/// Writes messages of type `Q`, and reads messages of type `A`.
#[derive(Debug)]
pub struct Messages<Q, A>(PhantomData<(Q, A)>);

impl<Q, A> Default for Messages<Q, A> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Q: Message + 'static, A: Message + Default + 'static> Codec for Messages<Q, A> {
    type Encode = Q;
    type Decode = A;
    type Encoder = MessageEncoder<Q>;
    type Decoder = MessageDecoder<A>;

    fn encoder(&mut self) -> Self::Encoder {
        MessageEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        MessageDecoder(PhantomData)
    }
}

/// Writes messages.
#[derive(Debug)]
pub struct MessageEncoder<Q>(PhantomData<Q>);

impl<Q: Message> Encoder for MessageEncoder<Q> {
    type Item = Q;
    type Error = Status;

    fn encode(&mut self, message: Q, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }
}

/// Reads messages.
#[derive(Debug)]
pub struct MessageDecoder<A>(PhantomData<A>);

impl<A: Message + Default> Decoder for MessageDecoder<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        Message::decode(buffer).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

/// A message with lists. Its field 1 is its name.
pub(super) trait Lists: Message + Default + 'static {
    /// What it is.
    const WHAT: &str;
    /// Numbers and names of the fields that are lists.
    const LISTS: &[(u64, &str)];
}

impl Lists for Bundle {
    const WHAT: &str = "bundle";
    const LISTS: &[(u64, &str)] = &[
        (5, "object"),
        (7, "providedApis"),
        (8, "requiredApis"),
        (11, "dependencies"),
        (12, "properties"),
        (14, "skips"),
    ];
}

impl Lists for Package {
    const WHAT: &str = "package";
    const LISTS: &[(u64, &str)] = &[(2, "channels")];
}

/// Writes `Q`, and reads `A` if its lists have at most [`MAX_ITEMS`] items each.
pub(super) struct Bounded<Q, A>(PhantomData<(Q, A)>);

impl<Q, A> Default for Bounded<Q, A> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Q: Message + 'static, A: Lists> Codec for Bounded<Q, A> {
    type Encode = Q;
    type Decode = A;
    type Encoder = MessageEncoder<Q>;
    type Decoder = BoundedDecoder<A>;

    fn encoder(&mut self) -> Self::Encoder {
        MessageEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(MessageDecoder(PhantomData))
    }
}

pub(super) struct BoundedDecoder<A>(MessageDecoder<A>);

impl<A: Lists> Decoder for BoundedDecoder<A> {
    type Item = A;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<A>, Status> {
        if buffer.chunk().len() < buffer.remaining() {
            return Err(Status::internal("a message came in pieces"));
        }
        check::<A>(buffer.chunk()).map_err(Status::out_of_range)?;
        self.0.decode(buffer)
    }
}

/// What is too long in a message. Where it is none, the decoder will say so.
pub(super) fn check<A: Lists>(message: &[u8]) -> Result<(), String> {
    let mut counts = [0; 16];
    let mut name: &[u8] = b"";
    let mut rest = message;
    while let Some((number, body)) = field(&mut rest) {
        if number == 1 {
            name = body;
        }
        let Some((_, list)) = A::LISTS.iter().find(|(list, _)| *list == number) else { continue };
        let Some(count) = usize::try_from(number).ok().and_then(|number| counts.get_mut(number)) else { continue };
        *count += 1;
        if *count > MAX_ITEMS {
            let name = document::excerpt(&String::from_utf8_lossy(&name[..name.len().min(document::MAX_NAME)]));
            return Err(format!("{} {name:?}: {list}: more than {MAX_ITEMS} items are not read", A::WHAT));
        }
    }
    Ok(())
}

/// The number of the next field, and its bytes if it has a length. `None` at the end and where the wire format ends.
fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    if rest.is_empty() {
        return None;
    }
    let key = decode_varint(rest).ok()?;
    let length = match key & 7 {
        0 => decode_varint(rest).map(|_| 0).ok()?,
        1 => 8,
        2 => decode_varint(rest).ok()?,
        // The fields of a group follow, as if they were no group's: all are unknown.
        3 | 4 => 0,
        5 => 4,
        _ => return None,
    };
    let (body, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = after;
    Some((key >> 3, body))
}
