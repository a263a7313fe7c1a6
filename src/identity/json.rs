//! A strict reader of JSON objects. It refuses an object with the same member twice, at any depth:
//! of two readers one takes the first and the other the last, and what is signed must mean the same
//! to all.
//!
//! The values are `serde_json`'s, but its own reader of values is not used: that one takes the last
//! of two members, and gives one member name a meaning of its own.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The members of an object.
pub type Members = Map<String, Value>;

/// How deep objects and lists may be nested.
pub const MAX_DEPTH: usize = 32;

/// Why a text is not taken as an object. It quotes nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonFault {
    /// The text has too many bytes.
    TooLong,
    /// The text is not JSON, or has a number that is none.
    NotJson,
    /// The text is JSON, but no object.
    NotObject,
    /// A member is there twice.
    Twice,
    /// Objects and lists are nested too deep.
    TooDeep,
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JsonFault::TooLong => "is too long",
            JsonFault::NotJson => "is not JSON",
            JsonFault::NotObject => "is not a JSON object",
            JsonFault::Twice => "has a member twice",
            JsonFault::TooDeep => "is nested too deep",
        })
    }
}

/// Reads a text that is one object, and nothing else.
pub fn parse_object(text: &[u8], max_bytes: usize) -> Result<Members, JsonFault> {
    if text.len() > max_bytes {
        return Err(JsonFault::TooLong);
    }
    let fault = Cell::new(JsonFault::NotJson);
    let reader = Reader {
        depth: 0,
        fault: &fault,
    };
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = reader.deserialize(&mut json).and_then(|value| {
        json.end()?;
        Ok(value)
    });
    match value {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(JsonFault::NotObject),
        Err(_) => Err(fault.get()),
    }
}

/// Reads one value, and notes why it is refused.
#[derive(Clone, Copy)]
struct Reader<'f> {
    /// In how many objects and lists the value is.
    depth: usize,
    fault: &'f Cell<JsonFault>,
}

impl Reader<'_> {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(self.refuse(JsonFault::TooDeep));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }

    fn refuse<E: serde::de::Error>(self, fault: JsonFault) -> E {
        self.fault.set(fault);
        E::custom(fault)
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("no number"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let reader = self.deeper()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(reader)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let reader = self.deeper()?;
        let mut members = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(reader)?;
            if members.insert(name, value).is_some() {
                return Err(self.refuse(JsonFault::Twice));
            }
        }
        Ok(Value::Object(members))
    }
}
