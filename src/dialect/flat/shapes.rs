//! Shapes of JSON that servers are not strict about, borrowed from the text where it holds them as they are.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A string; `null` is none.
#[derive(Debug, Default)]
pub(in crate::dialect) struct Text<'a>(Option<Cow<'a, str>>);

impl Text<'_> {
    /// The string, if there is one and it is not empty.
    pub(in crate::dialect) fn said(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }

    /// The string, empty if there is none.
    pub(in crate::dialect) fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

/// A list; one object that stands alone is a list of one, and `null` is none.
#[derive(Debug)]
pub(in crate::dialect) enum Several<T> {
    /// One.
    One(T),
    /// As many as there are.
    Many(Vec<T>),
}

impl<T> Several<T> {
    /// All of them.
    pub(in crate::dialect) fn list(&self) -> &[T] {
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

/// A count, be it written as an integer or not; what is none is not there.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(in crate::dialect) struct Count(pub(in crate::dialect) Option<u64>);

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

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_u64<E>(self, count: u64) -> Result<Count, E> {
                Ok(Count(Some(count)))
            }
            fn visit_i64<E>(self, count: i64) -> Result<Count, E> {
                Ok(Count(count.try_into().ok()))
            }
            fn visit_f64<E>(self, count: f64) -> Result<Count, E> {
                // Beyond 2^53 an f64 counts nothing.
                let is_count = (0.0..9e15).contains(&count);
                #[expect(clippy::cast_possible_truncation, reason = "rounded, and in range")]
                let count = count.round() as u64;
                Ok(Count(is_count.then_some(count)))
            }
            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_str<E>(self, _: &str) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
        }
        from.deserialize_any(Read)
    }
}
