//! Writes the attributes of spans. A span consists mostly of them, so each is written with few
//! copies: its name is a template that the compiler makes. Pure.

use super::protobuf::{MORE, Message, field_length, low, varint_length};
use crate::base::address::{address_length, append_address};
use std::net::IpAddr;

/// The numbers of the fields of OpenTelemetry's messages.
mod field {
    /// Of a span.
    pub(super) const ATTRIBUTES: u8 = 9;
    /// Of an attribute.
    pub(super) const KEY: u8 = 1;
    pub(super) const VALUE: u8 = 2;
    /// Of a value: one of these.
    pub(super) const TEXT: u8 = 1;
    pub(super) const TRUTH: u8 = 2;
    pub(super) const INTEGER: u8 = 3;
    pub(super) const DOUBLE: u8 = 4;
    pub(super) const LIST: u8 = 5;
    /// Of a list.
    pub(super) const ENTRY: u8 = 1;
}

/// The bytes of a template without the name.
pub(super) const TEMPLATE_BYTES: usize = 6;
/// The form of a field that has a length.
const LENGTH: u8 = 2;

/// The name of an attribute, in a template: all bytes of a short attribute up to its value. The
/// second byte and the last one are zero, and stand for the lengths of the attribute and of its
/// value.
#[derive(Clone, Copy)]
pub(super) struct AttributeName(pub(super) &'static [u8]);

/// Makes the names of attributes.
macro_rules! names {
    ($($(#[$about:meta])* $constant:ident: $name:literal;)*) => {$(
        $(#[$about])*
        pub(crate) const $constant: $crate::traces::attributes::AttributeName =
            $crate::traces::attributes::AttributeName(&const {
                $crate::traces::attributes::template::<
                    { $name.len() + $crate::traces::attributes::TEMPLATE_BYTES },
                >($name)
            });
    )*};
}
pub(super) use names;

/// Makes the template of a name.
#[expect(
    clippy::indexing_slicing,
    reason = "the compiler runs it, and a wrong index does not compile"
)]
pub(super) const fn template<const N: usize>(name: &str) -> [u8; N] {
    assert!(
        N < MORE as usize && N == name.len() + TEMPLATE_BYTES,
        "the name is too long"
    );
    let mut template = [0; N];
    template[0] = field::ATTRIBUTES << 3 | LENGTH;
    template[2] = field::KEY << 3 | LENGTH;
    template[3] = name.len().to_le_bytes()[0];
    let mut index = 0;
    while index < name.len() {
        template[4 + index] = name.as_bytes()[index];
        index += 1;
    }
    template[N - 2] = field::VALUE << 3 | LENGTH;
    template
}

impl AttributeName {
    /// Returns the name itself.
    fn name(&self) -> &'static [u8] {
        self.0.get(4..self.0.len() - 2).unwrap_or_default()
    }
}

/// The attributes of a span that is being written.
pub(super) struct Attributes<'m>(pub(super) &'m mut Message);

impl Attributes<'_> {
    /// Begins an attribute. Its value has this many bytes, which are written next.
    #[inline]
    fn begin_attribute(&mut self, AttributeName(template): AttributeName, value: usize) {
        let whole = template.len() - 2 + value;
        if whole >= usize::from(MORE) {
            return self.begin_long(AttributeName(template), value);
        }
        self.0.put(template);
        // Both are less than 128.
        if let Some([_, whole_length, .., value_length]) = self.0.last_bytes(template.len()) {
            (*whole_length, *value_length) = (low(whole as u64), low(value as u64));
        }
    }

    #[cold]
    fn begin_long(&mut self, name: AttributeName, value: usize) {
        let name = name.name();
        self.0.begin(
            field::ATTRIBUTES,
            field_length(name.len()) + field_length(value),
        );
        self.0.bytes(field::KEY, name);
        self.0.begin(field::VALUE, value);
    }

    pub(super) fn text(&mut self, name: AttributeName, text: &str) {
        self.begin_attribute(name, field_length(text.len()));
        self.0.bytes(field::TEXT, text.as_bytes());
    }

    pub(super) fn optional_text(&mut self, name: AttributeName, text: Option<&str>) {
        if let Some(text) = text {
            self.text(name, text);
        }
    }

    pub(super) fn address(&mut self, name: AttributeName, address: Option<IpAddr>) {
        if let Some(address) = address {
            let length = address_length(address);
            self.begin_attribute(name, field_length(length));
            self.0.begin(field::TEXT, length);
            append_address(self.0.end(), address);
        }
    }

    pub(super) fn number(&mut self, name: AttributeName, number: Option<u64>) {
        if let Some(number) = number {
            let number = number.min(i64::MAX.unsigned_abs());
            self.begin_attribute(name, 1 + varint_length(number));
            self.0.number(field::INTEGER, number);
        }
    }

    pub(super) fn double(&mut self, name: AttributeName, number: Option<f64>) {
        if let Some(number) = number {
            self.begin_attribute(name, 1 + size_of::<f64>());
            self.0.double(field::DOUBLE, number);
        }
    }

    /// Adds an attribute that is true.
    pub(super) fn truth(&mut self, name: AttributeName) {
        self.begin_attribute(name, 2);
        self.0.number(field::TRUTH, 1);
    }

    /// Adds a list, unless it is empty.
    pub(super) fn texts<'t>(&mut self, name: AttributeName, texts: impl Iterator<Item = &'t str>) {
        let mut texts = texts.peekable();
        if texts.peek().is_none() {
            return;
        }
        let mut list = Message::default();
        texts.for_each(|text| {
            list.short_message(field::ENTRY, |value| {
                value.bytes(field::TEXT, text.as_bytes())
            })
        });
        let list = list.encoded();
        self.begin_attribute(name, field_length(list.len()));
        self.0.bytes(field::LIST, list);
    }
}

/// Writes an attribute as a field of something else than a span.
pub(super) fn put_text(message: &mut Message, field: u8, name: &str, text: &str) {
    message.short_message(field, |attribute| {
        attribute.bytes(field::KEY, name.as_bytes());
        attribute.short_message(field::VALUE, |value| {
            value.bytes(field::TEXT, text.as_bytes())
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::trace::v1::Span;
    use prost::Message as _;

    names! { NAME: "a.name"; }

    /// Returns the only value that is written, as OpenTelemetry's own messages read it.
    fn written(write: impl FnOnce(&mut Attributes<'_>)) -> Option<Value> {
        let mut message = Message::default();
        message.number(6, 3);
        write(&mut Attributes(&mut message));
        message.number(6, 2);
        let mut span = Span::decode(message.encoded()).unwrap();
        assert_eq!(span.kind, 2);
        let attribute = span.attributes.pop()?;
        assert_eq!((&*attribute.key, span.attributes.len()), ("a.name", 0));
        attribute.value.unwrap().value
    }

    #[test]
    fn a_text_of_each_length_is_read_unchanged() {
        for length in (0..300).chain([16_383, 16_384, 70_000]) {
            let text = "x".repeat(length);
            assert_eq!(
                written(|a| a.text(NAME, &text)),
                Some(Value::StringValue(text)),
                "{length}"
            );
        }
        assert_eq!(written(|a| a.optional_text(NAME, None)), None);
    }

    #[test]
    fn each_kind_of_value_is_read_as_it_is() {
        for number in [0, 1, 127, 128, 16_384, i64::MAX] {
            let read = written(|a| a.number(NAME, Some(number.unsigned_abs())));
            assert_eq!(read, Some(Value::IntValue(number)));
        }
        assert_eq!(
            written(|a| a.number(NAME, Some(u64::MAX))),
            Some(Value::IntValue(i64::MAX))
        );
        assert_eq!(
            written(|a| a.double(NAME, Some(-0.5))),
            Some(Value::DoubleValue(-0.5))
        );
        assert_eq!(written(|a| a.truth(NAME)), Some(Value::BoolValue(true)));
        for address in ["192.0.2.10", "2001:db8::1"] {
            let read = written(|a| a.address(NAME, address.parse().ok()));
            assert_eq!(read, Some(Value::StringValue(address.to_owned())));
        }
    }

    #[test]
    fn lists_are_read_and_empty_ones_not_written() {
        assert_eq!(written(|a| a.texts(NAME, [].into_iter())), None);
        for length in [1, 2, 200] {
            let texts: Vec<_> = (0..length).map(|place| place.to_string()).collect();
            let read = written(|a| a.texts(NAME, texts.iter().map(|text| &**text)));
            let Some(Value::ArrayValue(list)) = read else {
                panic!("{read:?}")
            };
            let read = list.values.into_iter().map(|value| value.value.unwrap());
            assert_eq!(
                read.collect::<Vec<_>>(),
                texts
                    .into_iter()
                    .map(Value::StringValue)
                    .collect::<Vec<_>>()
            );
        }
    }
}
