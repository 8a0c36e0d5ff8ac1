//! Looking for many keys of a map, one behind the other: each from where the last one was found, not from the top again.
//!
//! A message to many has to find their inboxes. It looks for them in the order of their names, which is the map's: where most of all that
//! there are get it, the next one is the next there, and what a delivery costs does not grow with how many there are.

use std::collections::BTreeMap;
use std::collections::btree_map::{Range, RangeMut};

/// How many are looked at before it is begun from the top again: about as many comparisons as that takes where there are a hundred.
const AHEAD: usize = 4;

/// Where in a map the last key was found. Keys may be looked for in any order; the map's is the fast one.
pub(super) struct Finger<'a, K, V> {
    map: &'a BTreeMap<K, V>,
    /// What comes behind it; none before the first one is looked for, which may be the only one.
    rest: Option<Range<'a, K, V>>,
}

impl<'a, K: Ord, V> Finger<'a, K, V> {
    pub fn new(map: &'a BTreeMap<K, V>) -> Self {
        Self { map, rest: None }
    }

    /// Finds what the map has for a key.
    pub fn find(&mut self, key: &K) -> Option<&'a V> {
        let Some(rest) = &mut self.rest else {
            self.rest = Some(Range::default());
            return self.map.get(key);
        };
        let is_it = |(found, _): &(&K, &V)| *found == key;
        let ahead = rest.by_ref().take(AHEAD).find(is_it);
        let found = ahead.or_else(|| {
            *rest = self.map.range(key..);
            rest.next().filter(is_it)
        });
        found.map(|(_, value)| value)
    }
}

/// Does something with what a map has for each of some keys, in their order, and with nothing for those that it has not.
pub(super) fn for_each_mut<K: Ord, V>(
    map: &mut BTreeMap<K, V>,
    keys: &[K],
    mut each: impl FnMut(&K, &mut V),
) {
    if let [key] = keys {
        if let Some(value) = map.get_mut(key) {
            each(key, value);
        }
        return;
    }
    let mut rest = RangeMut::default();
    for key in keys {
        let is_it = |(found, _): &(&K, &mut V)| *found == key;
        let ahead = rest.by_ref().take(AHEAD).find(is_it);
        let found = match ahead {
            Some(found) => Some(found),
            None => {
                rest = map.range_mut(key..);
                rest.next().filter(is_it)
            }
        };
        if let Some((_, value)) = found {
            each(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a map of the even numbers below 100, each with its half.
    fn halves() -> BTreeMap<u32, u32> {
        (0..50).map(|half| (2 * half, half)).collect()
    }

    #[test]
    fn keys_are_found_in_any_order_and_what_is_not_there_is_not() {
        let map = halves();
        let orders: [&[u32]; 8] = [
            &[0, 2, 4, 6],
            &[98, 0, 98, 98],
            &[0, 8, 18, 30],
            &[1, 2, 3, 4],
            &[50, 48, 200, 52],
            &[4],
            &[5],
            &[],
        ];
        for keys in orders {
            let expected: Vec<Option<u32>> = keys.iter().map(|key| map.get(key).copied()).collect();
            let mut finger = Finger::new(&map);
            let found: Vec<Option<u32>> = keys.iter().map(|key| finger.find(key).copied()).collect();
            assert_eq!(found, expected, "{keys:?}");

            let mut changed = map.clone();
            let mut seen = Vec::new();
            for_each_mut(&mut changed, keys, |key, half| {
                seen.push((*key, *half));
                *half = 1000;
            });
            let there = keys.iter().zip(&expected);
            let there = there.filter_map(|(key, half)| Some((*key, (*half)?)));
            let once: BTreeMap<u32, u32> = there.clone().collect();
            assert_eq!(seen.len(), there.count(), "{keys:?}");
            let expected = map
                .iter()
                .map(|(key, half)| (*key, if once.contains_key(key) { 1000 } else { *half }));
            assert_eq!(changed, expected.collect(), "{keys:?}");
        }
    }
}
