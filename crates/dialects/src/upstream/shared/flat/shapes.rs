//! This module has the shapes that the answers of several servers share: calls of functions, and
//! lists that some servers write in another form.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::neutral::{Emit, Event};
use crate::upstream::shared::lenient::Object;
use crate::upstream::shared::text::Text;

/// A call of a function. `A` is the form of its arguments.
#[derive(Default, serde::Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a, A: Default + Deserialize<'de>"))]
pub(crate) struct ToolCall<'a, A> {
    id: Text<'a>,
    function: Option<Object<Function<'a, A>>>,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a, A: Default + Deserialize<'de>"))]
struct Function<'a, A> {
    name: Text<'a>,
    arguments: A,
}

impl<A> ToolCall<'_, A> {
    /// Returns whether the call names its function.
    pub(crate) fn is_named(&self) -> bool {
        self.function
            .as_ref()
            .is_some_and(|function| function.name.filled().is_some())
    }

    /// Emits the call without its arguments.
    pub(crate) fn emit_begin(&self, emit: Emit<'_>) {
        let name = self
            .function
            .as_ref()
            .map_or("", |function| function.name.as_str());
        emit(Event::Call {
            choice: 0,
            id: self.id.filled(),
            name,
            signature: None,
        });
    }

    /// Returns the arguments, if the call has a function.
    pub(crate) fn arguments(&self) -> Option<&A> {
        self.function.as_ref().map(|function| &function.arguments)
    }
}

/// A list; one object that stands alone is a list of one, and `null` is an empty list.
#[derive(Debug)]
pub(crate) enum Several<T> {
    /// A single object.
    One(T),
    /// A list.
    Many(Vec<T>),
}

impl<T> Several<T> {
    /// Returns the elements.
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

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ReadSeveral<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ReadSeveral<T> {
            type Value = Several<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object, or a list of them")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Several<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Several::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Several<T>, A::Error> {
                let mut many = Vec::new();
                while let Some(one) = list.next_element::<Option<Object<T>>>()? {
                    many.extend(one.map(|Object(one)| one));
                }
                Ok(Several::Many(many))
            }
            fn visit_unit<E>(self) -> Result<Several<T>, E> {
                Ok(Several::default())
            }
        }
        from.deserialize_any(ReadSeveral(PhantomData))
    }
}
