use super::*;

const OKTA: &str = "https://okta.example";
const ENTRA: &str = "https://entra.example";

fn digest(number: usize) -> TokenDigest {
    TokenDigest::new(&number.to_le_bytes())
}

fn key(number: u8) -> KeyId {
    KeyId([number; 32])
}

/// Keeps a token that ends at 1000.
fn keep(remembered: &Remembered<usize>, number: usize, issuer: &str, signer: u8) {
    let finding = Finding {
        value: Arc::new(number),
        issuer: &issuer.into(),
        key: key(signer),
        expires_at: 1000,
    };
    remembered.keep(digest(number), finding, remembered.begin(), 0);
}

/// Lists which of the first tokens are kept.
fn kept(remembered: &Remembered<usize>) -> Vec<usize> {
    let found = (0..10).filter_map(|number| remembered.find(&digest(number), 999));
    found.map(|number| *number).collect()
}

#[test]
fn a_token_is_found_until_it_ends() {
    let remembered = Remembered::default();
    keep(&remembered, 1, OKTA, 1);
    assert_eq!(remembered.find(&digest(1), 999).as_deref(), Some(&1));
    assert_eq!(remembered.find(&digest(1), 1000), None);
    assert_eq!(remembered.find(&digest(2), 0), None);
    remembered.sweep(999);
    assert_eq!(remembered.count(), 1);
    remembered.sweep(1000);
    assert_eq!(remembered.count(), 0);
    // What has ended already is not kept.
    let finding = Finding {
        value: Arc::new(3),
        issuer: &OKTA.into(),
        key: key(1),
        expires_at: 1000,
    };
    remembered.keep(digest(3), finding, remembered.begin(), 1000);
    assert_eq!(remembered.count(), 0);
    assert_eq!(format!("{:?}", digest(1)), "[digest of a token]");
}

#[test]
fn tokens_go_with_their_key_and_issuer() {
    let fill = || {
        let remembered = Remembered::default();
        keep(&remembered, 0, OKTA, 1);
        keep(&remembered, 1, OKTA, 2);
        keep(&remembered, 2, ENTRA, 1);
        keep(&remembered, 3, ENTRA, 3);
        remembered
    };
    let remembered = fill();
    assert_eq!(kept(&remembered), [0, 1, 2, 3]);
    remembered.forget_key(OKTA, &key(1));
    assert_eq!(kept(&remembered), [1, 2, 3]);
    remembered.forget_key(OKTA, &key(3));
    assert_eq!(kept(&remembered), [1, 2, 3]);
    remembered.forget_issuer(ENTRA);
    assert_eq!(kept(&remembered), [1]);
    keep(&remembered, 0, OKTA, 1);
    assert_eq!(kept(&remembered), [0, 1]);
    remembered.clear();
    assert_eq!(kept(&remembered), [0; 0]);
    assert_eq!(remembered.count(), 0);
    let origins = remembered
        .shards
        .iter()
        .map(|shard| shard.lock().origins.len());
    assert_eq!(origins.sum::<usize>(), 0);
}

#[test]
fn what_was_begun_before_forgetting_is_not_kept() {
    for forget in [
        |remembered: &Remembered<usize>| remembered.forget_key(OKTA, &key(9)),
        |remembered: &Remembered<usize>| remembered.forget_issuer(OKTA),
        |remembered: &Remembered<usize>| remembered.clear(),
    ] {
        let remembered = Remembered::default();
        let begin = remembered.begin();
        forget(&remembered);
        for (epoch, expected) in [(begin, 0), (remembered.begin(), 1)] {
            let finding = Finding {
                value: Arc::new(1),
                issuer: &OKTA.into(),
                key: key(1),
                expires_at: 1000,
            };
            remembered.keep(digest(1), finding, epoch, 0);
            assert_eq!(remembered.count(), expected);
        }
    }
}

#[test]
fn the_oldest_give_way_when_it_is_full() {
    let remembered = Remembered::new(1600);
    for number in 0..20_000 {
        keep(&remembered, number, OKTA, 1);
    }
    assert_eq!(remembered.count(), 1600);
    for shard in &remembered.shards {
        let shard = shard.lock();
        assert_eq!((shard.entries.len(), shard.order.len()), (100, 100));
        assert!(
            shard
                .order
                .iter()
                .all(|digest| shard.entries.contains_key(digest))
        );
        assert_eq!(shard.origins.len(), 1);
    }
    assert!(remembered.find(&digest(19_999), 0).is_some());
    assert!(remembered.find(&digest(0), 0).is_none());
    // The same token again takes no other's place.
    for _ in 0..1000 {
        keep(&remembered, 19_999, OKTA, 1);
    }
    assert_eq!(remembered.count(), 1600);
    // Those that have ended go before those that have not.
    let finding = Finding {
        value: Arc::new(1),
        issuer: &OKTA.into(),
        key: key(1),
        expires_at: 2000,
    };
    remembered.keep(digest(30_000), finding, remembered.begin(), 1500);
    assert_eq!(remembered.count(), 1501);
}

#[test]
fn a_token_takes_at_most_300_bytes() {
    // Sizes at which the tables have just grown are the worst.
    for tokens in [7_200 * SHARDS / 16, 3_600 * SHARDS, MAX_TOKENS] {
        let remembered = Remembered::default();
        let (value, issuer) = (Arc::new(0_usize), OKTA.into());
        for number in 0..tokens {
            let finding = Finding {
                value: value.clone(),
                issuer: &issuer,
                key: key(1),
                expires_at: 1000,
            };
            remembered.keep(digest(number), finding, remembered.begin(), 0);
        }
        let bytes: usize = remembered
            .shards
            .iter()
            .map(|shard| {
                let shard = shard.lock();
                // A table has a byte for each bucket, and an eighth more buckets than capacity.
                let buckets = (shard.entries.capacity() * 8)
                    .div_ceil(7)
                    .next_power_of_two();
                let bucket = size_of::<(TokenDigest, Entry<usize>)>() + 1;
                buckets * bucket + shard.order.capacity() * size_of::<TokenDigest>()
            })
            .sum();
        let each = bytes / remembered.count();
        println!("{} tokens: {each} bytes each", remembered.count());
        assert!(each <= 300, "{each} bytes");
    }
}

#[test]
fn many_threads_find_and_forget_at_once() {
    let remembered = Remembered::new(1600);
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let remembered = &remembered;
            scope.spawn(move || {
                for number in 0..5_000 {
                    keep(remembered, number, OKTA, 1);
                    if let Some(found) = remembered.find(&digest(number), 0) {
                        assert_eq!(*found, number);
                    }
                    match number % 500 {
                        0 if thread == 0 => remembered.forget_issuer(OKTA),
                        250 if thread == 1 => remembered.sweep(0),
                        _ => {}
                    }
                }
            });
        }
    });
    assert!(remembered.count() <= 1600);
    for shard in &remembered.shards {
        let shard = shard.lock();
        assert_eq!(shard.entries.len(), shard.order.len());
    }
}
