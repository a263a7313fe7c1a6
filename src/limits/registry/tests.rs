use super::*;
use crate::base::calendar::DAY;
use crate::catalog::resolve::resolve_catalog;
use crate::catalog::{Catalog, Key};
use crate::limits::{Ask, Counts, take_reservation};

const NOW: u64 = 1_795_000_000_000;

fn catalog(callers: &str) -> Catalog {
    let text = format!(
        "accounts: {{a: {{dialect: demo}}}}\nmodels: {{l: {{targets: [{{account: a}}]}}, m: {{targets: [{{account: a}}]}}}}\ncallers:\n{callers}"
    );
    resolve_catalog(&[("catalog.yaml".to_owned(), text)], &mut |_| {
        unreachable!("it names nothing")
    })
    .unwrap_or_else(|problems| panic!("{problems}"))
}

fn hash(digit: char) -> String {
    format!("hash: 'sha256:{}'", digit.to_string().repeat(64))
}

fn key<'c>(catalog: &'c Catalog, id: &str) -> &'c Arc<Key> {
    catalog.keys().find(|key| &*key.id == id).unwrap()
}

fn past(at: u64, key: &str, model: &str, tokens: u64) -> Past {
    let caller = key.split('/').next().unwrap();
    let caller = caller.into();
    Past {
        used_at: at,
        dated: None,
        caller,
        key: key.into(),
        model: model.into(),
        requests: 1,
        tokens,
        usd: Usd(tokens),
        unpriced: 0,
        is_taken_over: false,
    }
}

fn names(scopes: &KeyScopes, key: &Key, model: usize) -> Vec<String> {
    scopes
        .bounds(key, model)
        .iter()
        .map(|bound| format!("{} {}", bound.scope.level.name(), bound.scope.name))
        .collect()
}

#[test]
fn scopes_are_for_what_has_limits_and_outlive_catalogs() {
    let registry = Registry::default();
    let limited = |limit: u64| {
        catalog(&format!(
            "  acme:\n    limits: {{tokens_per_day: 1000}}\n    keys:\n      prod: {{{}, limits: {{requests_per_minute: {limit}}}, model_limits: {{l: {{}}, m: {{tokens_per_minute: 500}}}}}}\n      dev: {{{}}}\n  free:\n    keys: {{k: {{{}}}}}\n",
            hash('1'),
            hash('2'),
            hash('3')
        ))
    };
    let first = limited(1);
    let of_first = registry.adopt(&first, &mut Vec::new);
    let prod = key(&first, "acme/prod");
    assert_eq!(
        names(&of_first[prod.index], prod, 1),
        ["caller acme", "key acme/prod", "key_model acme/prod m"]
    );
    assert_eq!(
        names(&of_first[prod.index], prod, 0),
        ["caller acme", "key acme/prod"],
        "a model without limits has no scope"
    );
    let dev = key(&first, "acme/dev");
    assert_eq!(names(&of_first[dev.index], dev, 1), ["caller acme"]);
    assert!(
        of_first[key(&first, "free/k").index]
            .bounds(key(&first, "free/k"), 0)
            .is_empty()
    );
    assert_eq!(registry.scopes().len(), 3);

    // A changed limit goes on with what is counted, and asks nobody for it.
    let ask = Ask::exact(10, Usd(0));
    let held = take_reservation(&of_first[prod.index].bounds(prod, 1), ask, NOW, 1).unwrap();
    of_first[prod.index].last_used.touch(NOW);
    let second = limited(2);
    let of_second = registry.adopt(&second, &mut || unreachable!("no scope is new"));
    let prod = key(&second, "acme/prod");
    assert_eq!(of_second[prod.index].last_used.last_used_at(), Some(NOW));
    drop((first, of_first));
    let another = take_reservation(&of_second[prod.index].bounds(prod, 1), ask, NOW, 1).unwrap();
    assert!(take_reservation(&of_second[prod.index].bounds(prod, 1), ask, NOW, 1).is_err());

    // What no catalog names is not counted any more; so if it comes back it asks what was used
    // before, whoever holds it still.
    let gone = catalog("  free: {}\n");
    assert_eq!(registry.adopt(&gone, &mut Vec::new).len(), 0);
    assert_eq!(registry.scopes().len(), 0);
    drop(of_second);
    let mut asked = 0;
    let back = registry.adopt(&limited(2), &mut || {
        asked += 1;
        Vec::new()
    });
    drop((held, another));
    assert_eq!((registry.scopes().len(), asked), (3, 1));
    drop(back);
    assert_eq!(registry.scopes().len(), 0);
}

#[test]
fn a_new_scope_begins_with_what_was_used_before() {
    let registry = Registry::default();
    let text = |of_caller: &str| {
        catalog(&format!(
            "  acme:\n    limits: {{{of_caller}}}\n    keys:\n      prod: {{{}, limits: {{tokens_per_day: 1000}}, model_limits: {{m: {{tokens_per_minute: 500}}}}}}\n      dev: {{{}}}\n",
            hash('1'),
            hash('2')
        ))
    };
    let before = vec![
        past(NOW - 40 * DAY, "acme/prod", "m", 1),
        past(NOW / DAY * DAY - DAY, "acme/prod", "m", 2),
        past(NOW / DAY * DAY, "acme/prod", "l", 4),
        past(NOW / DAY * DAY, "acme/prod", "m", 8),
        past(NOW - 30_000, "acme/prod", "m", 16),
        past(NOW - 1_000, "acme/dev", "m", 32),
        past(NOW - 500, "other/prod", "m", 64),
    ];
    let first = text("");
    let mut asked = 0;
    let scopes = registry.adopt(&first, &mut || {
        asked += 1;
        before.clone()
    });
    let prod = key(&first, "acme/prod");
    let own = |scopes: &[KeyScopes]| {
        let KeyScopes {
            caller,
            key,
            models,
            ..
        } = &scopes[prod.index];
        let all = caller
            .iter()
            .chain(key)
            .chain(models.iter().map(|(_, scope)| scope));
        all.map(|scope| scope.own_counts(NOW))
            .collect::<Vec<Counts>>()
    };
    let told = |counts: &Counts| {
        (
            counts.day.requests,
            counts.day.tokens,
            counts.day.usd.0,
            counts.month_usd.0,
            counts.minute.clone(),
        )
    };
    let second = NOW / 1_000;
    assert_eq!(
        own(&scopes).iter().map(told).collect::<Vec<_>>(),
        [
            (3, 28, 28, 30, vec![]),
            (2, 24, 24, 26, vec![(second - 30, Used::new(1, 16, Usd(0)))])
        ],
        "the key by the day, its model by the minute"
    );

    // The caller is new; the key is not told twice.
    let limited = text("requests_per_minute: 9, usd_per_month: 1");
    let scopes = registry.adopt(&limited, &mut || {
        asked += 1;
        before.clone()
    });
    let all = own(&scopes);
    assert_eq!(
        told(&all[0]),
        (
            4,
            60,
            60,
            62,
            vec![
                (second - 30, Used::new(1, 16, Usd(0))),
                (second - 1, Used::new(1, 32, Usd(0)))
            ]
        )
    );
    assert_eq!((told(&all[1]).1, told(&all[2]).1, asked), (28, 24, 2));
    registry.adopt(&catalog("  acme: {}\n"), &mut || {
        unreachable!("nothing is limited")
    });
}

#[test]
fn a_key_of_two_secrets_counts_as_one() {
    let registry = Registry::default();
    let digests = ['1', '2']
        .map(|digit| format!("{{{}}}", hash(digit)))
        .join(", ");
    let catalog = catalog(&format!(
        "  acme: {{keys: {{prod: {{hashes: [{digests}], limits: {{concurrency: 1}}}}}}}}\n"
    ));
    let scopes = registry.adopt(&catalog, &mut Vec::new);
    assert_eq!((scopes.len(), registry.scopes().len()), (1, 1));
    let used = &scopes[0].last_used;
    assert_eq!((used.last_used_at(), used.old_hash_uses()), (None, 0));
    used.touch(NOW);
    used.touch(NOW - 1);
    used.note_old_hash(NOW);
    assert_eq!(
        (
            used.last_used_at(),
            used.old_hash_uses(),
            used.old_hash_at()
        ),
        (Some(NOW), 1, Some(NOW))
    );
    used.note_old_hash(NOW - 2 * DAY);
    assert!(
        used.touch(NOW - DAY),
        "whoever keeps it elsewhere hears that the clock was wrong"
    );
    assert_eq!(
        (used.last_used_at(), used.old_hash_at()),
        (Some(NOW - DAY), Some(NOW - 2 * DAY))
    );
}

#[test]
fn a_keys_last_use_is_known_behind_any_rows() {
    let registry = Registry::default();
    let of = |ids: &str| {
        let keys = ids
            .chars()
            .map(|id| format!("k{id}: {{{}}}", hash(id)))
            .collect::<Vec<_>>()
            .join(", ");
        let catalog = catalog(&format!("  acme: {{keys: {{{keys}}}}}\n"));
        let scopes = registry.adopt(&catalog, &mut Vec::new);
        ids.chars()
            .map(|id| {
                scopes[key(&catalog, &format!("acme/k{id}")).index]
                    .last_used
                    .clone()
            })
            .collect::<Vec<_>>()
    };
    for (at, used) in (1..).zip(of("1234")) {
        used.touch(at);
    }
    for (ids, expected) in [
        ("1234", vec![1, 2, 3, 4]),
        ("01234", vec![0, 1, 2, 3, 4]),
        ("0134", vec![0, 1, 3, 4]),
        ("41530", vec![4, 1, 0, 3, 0]),
        ("1", vec![1]),
        ("13", vec![1, 0]),
    ] {
        assert_eq!(
            of(ids)
                .iter()
                .map(|used| used.last_used_at().unwrap_or(0))
                .collect::<Vec<_>>(),
            expected,
            "{ids}"
        );
    }
}

/// Returns the ids of the keys of a catalog that are listed as used.
fn used_ids(registry: &Registry, catalog: &Catalog, scopes: &[KeyScopes]) -> Vec<String> {
    let find = |id: &str| catalog.key(id).map(|key| key.index);
    let positions = registry.used_keys(catalog, scopes, find).into_iter();
    let keys = catalog.keys().as_slice();
    positions.map(|index| keys[index].id.to_string()).collect()
}

#[test]
fn used_keys_are_listed_wherever_they_move() {
    let registry = Registry::default();
    let keys = |names: &[(&str, char)]| {
        let keys = names
            .iter()
            .map(|(name, digit)| format!("{name}: {{{}}}", hash(*digit)));
        keys.collect::<Vec<_>>().join(", ")
    };
    let first = catalog(&format!(
        "  acme: {{keys: {{{}}}}}\n",
        keys(&[("a", '1'), ("b", '2')])
    ));
    let of_first = registry.adopt(&first, &mut Vec::new);
    assert!(used_ids(&registry, &first, &of_first).is_empty());
    let b = key(&first, "acme/b");
    for now in [NOW, NOW + 1] {
        registry.note_use(&b.id, &of_first[b.index].last_used, now);
    }
    assert_eq!(used_ids(&registry, &first, &of_first), ["acme/b"]);
    // Keys before it move it. Whoever still has the catalog before finds it there, too.
    let second = catalog(&format!(
        "  aaa: {{keys: {{{}}}}}\n  acme: {{keys: {{{}}}}}\n",
        keys(&[("k", '3')]),
        keys(&[("x", '4'), ("b", '2')])
    ));
    let of_second = registry.adopt(&second, &mut Vec::new);
    assert_eq!(used_ids(&registry, &second, &of_second), ["acme/b"]);
    assert_eq!(used_ids(&registry, &first, &of_first), ["acme/b"]);
    let without = catalog(&format!("  acme: {{keys: {{{}}}}}\n", keys(&[("a", '1')])));
    let of_none = registry.adopt(&without, &mut Vec::new);
    assert!(used_ids(&registry, &without, &of_none).is_empty());
    // A key that comes back begins anew.
    let of_first = registry.adopt(&first, &mut Vec::new);
    assert!(used_ids(&registry, &first, &of_first).is_empty());
    let b = key(&first, "acme/b");
    registry.note_use(&b.id, &of_first[b.index].last_used, NOW);
    assert_eq!(used_ids(&registry, &first, &of_first), ["acme/b"]);
}

#[test]
fn what_counts_without_a_use_has_a_listed_key() {
    let registry = Registry::default();
    let limited = catalog(&format!(
        "  acme: {{limits: {{tokens_per_day: 9}}, keys: {{a: {{{}}}, b: {{{}}}}}}}\n  free: {{keys: {{c: {{{}, limits: {{tokens_per_day: 9}}}}}}}}\n",
        hash('1'),
        hash('2'),
        hash('3')
    ));
    // The use of a key that is gone counts for its caller.
    let scopes = registry.adopt(&limited, &mut || vec![past(NOW, "acme/gone", "m", 5)]);
    assert_eq!(used_ids(&registry, &limited, &scopes), ["acme/a"]);
    registry.add_late(&past(NOW, "free/c", "m", 5), std::iter::empty());
    assert_eq!(used_ids(&registry, &limited, &scopes), ["acme/a", "free/c"]);
}
