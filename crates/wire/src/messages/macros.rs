//! Macro that defines the messages of one direction.

/// Defines an enum whose variants are messages, each with a number on the wire and fields.
macro_rules! messages {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $tag:literal $variant:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        })*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        // A message lives only until it is sent or handled; a box would not save anything.
        #[allow(clippy::large_enum_variant)]
        pub enum $name {
            $($(#[$variant_doc])* $variant { $($(#[$field_doc])* $field: $type,)* },)*
        }

        impl $name {
            /// Encodes the message as a packet.
            pub fn encode(&self) -> Vec<u8> {
                let mut out = Vec::new();
                match self {
                    $($name::$variant { $($field,)* } => {
                        out.put_u8($tag);
                        $($field.put(&mut out);)*
                    })*
                }
                out
            }

            /// Decodes a packet. Bytes after the message are an error.
            pub fn decode(packet: &[u8]) -> Result<Self, Malformed> {
                let mut from = Decoder(packet);
                let message = match from.u8()? {
                    $($tag => $name::$variant { $($field: Field::take(&mut from)?,)* },)*
                    _ => return Err(Malformed),
                };
                from.end()?;
                Ok(message)
            }
        }
    };
}
