//! Readers of maps and lists. Serde asks them for one key, value or item after the other.

use serde::de::{self, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess};

use super::{NodeReader, ReadError};
use crate::conf::yaml::{Entry, Node, Path, Step};

/// A map that is being read. The first of `left` is the entry whose key or value comes next.
pub(super) struct MapReader<'a, 't> {
    /// True if the map's keys are names that the operator chose, and no words of ours.
    pub(super) keys_are_names: bool,
    /// The reader of the map as a whole.
    pub(super) reader: NodeReader<'a, 't>,
    pub(super) entries: &'a [Entry<'t>],
    pub(super) left: &'a [Entry<'t>],
}

impl<'a> MapReader<'a, '_> {
    fn path(&self, key: &'a str) -> Path<'a> {
        let is_shown = !self.keys_are_names
            || (self.reader.collector.kind.shows)(self.reader.path.section(), key);
        self.reader.path.entry(key, is_shown)
    }
}

impl<'de> MapAccess<'de> for MapReader<'_, '_> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        let collector = self.reader.collector;
        while let Some((entry, rest)) = self.left.split_first() {
            if collector.is_dead(&entry.node) {
                self.left = rest;
                continue;
            }
            let key: de::value::StrDeserializer<'_, ReadError> = (*entry.key).into_deserializer();
            let path = self.path(&entry.key);
            return seed.deserialize(key).map(Some).map_err(|error| {
                collector.record(error, &entry.node, entry.line, entry.column, &path)
            });
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ReadError> {
        let Some((entry, rest)) = self.left.split_first() else {
            return Err(ReadError::Recorded);
        };
        let NodeReader { collector, .. } = self.reader;
        let path = self.path(&entry.key);
        let before = collector.count();
        match seed.deserialize(NodeReader {
            node: &entry.node,
            path: &path,
            collector,
        }) {
            Ok(value) => {
                self.left = rest;
                Ok(value)
            }
            Err(error) => {
                let error =
                    collector.record(error, &entry.node, entry.line, entry.node.column, &path);
                collector.give_up(&entry.node, before);
                if collector.is_full() {
                    self.left = &[];
                }
                Err(error)
            }
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A list that is being read; `next_index` is that of the item that comes next.
pub(super) struct ListReader<'a, 't> {
    /// The reader of the list as a whole.
    pub(super) reader: NodeReader<'a, 't>,
    pub(super) items: &'a [Node<'t>],
    pub(super) next_index: usize,
}

impl<'de> SeqAccess<'de> for ListReader<'_, '_> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ReadError> {
        let NodeReader {
            path, collector, ..
        } = self.reader;
        let Some(node) = self.items.get(self.next_index) else {
            return Ok(None);
        };
        let path = Path::In(path, Step::Index(self.next_index));
        self.next_index += 1;
        let item = seed.deserialize(NodeReader {
            node,
            path: &path,
            collector,
        });
        item.map(Some)
            .map_err(|error| collector.record(error, node, node.line, node.column, &path))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}
