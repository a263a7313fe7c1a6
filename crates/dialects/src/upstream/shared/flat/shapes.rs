//! Shapes of JSON that servers are not strict about, borrowed from the text where it holds them as
//! they are.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A string; `null` is none.
#[derive(Debug, Default)]
pub(crate) struct Text<'a>(Option<Cow<'a, str>>);

impl Text<'_> {
    /// The string, if there is one and it is not empty.
    pub(crate) fn said(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }

    /// The string, empty if there is none.
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

/// A list; one object that stands alone is a list of one, and `null` is none.
#[derive(Debug)]
pub(crate) enum Several<T> {
    /// One.
    One(T),
    /// As many as there are.
    Many(Vec<T>),
}

impl<T> Several<T> {
    /// All of them.
    pub(crate) fn list(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl<T> Default for Several<T> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Read<'a> {
            type Value = Text<'a>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'a>, E> {
                Ok(Text(Some(Cow::Borrowed(text))))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'a>, E> {
                Ok(Text(Some(Cow::Owned(text.to_owned()))))
            }
            fn visit_unit<E>(self) -> Result<Text<'a>, E> {
                Ok(Text(None))
            }
        }
        from.deserialize_any(Read(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = Several<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or a list of them")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Several<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Several::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Several<T>, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element::<Option<T>>()? {
                    many.extend(one);
                }
                Ok(Several::Many(many))
            }
            fn visit_unit<E>(self) -> Result<Several<T>, E> {
                Ok(Several::default())
            }
        }
        from.deserialize_any(Read(PhantomData))
    }
}
