//! The store that several gateways share.

use super::Clinic;
use crate::support::redis::Redis;
use crate::support::tls::Ca;
use crate::support::{Mock, run};

fn given(clinic: &Clinic, url: &str, more: &str) {
    clinic.folder.write("store-url", url);
    let seal = "seal: { keys: [{ file: seal }] }";
    clinic
        .folder
        .write("seal", "0123456789abcdef0123456789abcdef");
    clinic.server(
        "",
        &format!("store: {{ redis: {{ file: store-url }}, timeout: 5s{more} }}\n{seal}"),
    );
}

fn set(redis: &Redis, name: &str, value: &str) {
    redis::cmd("CONFIG")
        .arg("SET")
        .arg(name)
        .arg(value)
        .exec(&mut redis.connection())
        .unwrap();
}

#[test]
fn a_store_that_is_down_full_or_forgetful() {
    run(async {
        let mock = Mock::start().await;
        let (clinic, mut redis) = (Clinic::over(&mock), Redis::start());
        given(&clinic, redis.url(), "");
        let said = clinic.run_doctor().await;
        said.exits(0)
            .has(
                ("ok", "store", "reached"),
                &["is Redis", "can be written to"],
            )
            .is_well("store", "version");
        said.is_well("store", "eviction")
            .has(("ok", "clock", "time"), &["the store"]);
        assert_eq!(
            redis.keys(),
            Vec::<String>::new(),
            "the look leaves nothing behind"
        );
        set(&redis, "maxmemory", "100mb");
        set(&redis, "maxmemory-policy", "allkeys-lru");
        let words = [
            "allkeys-lru, with a `maxmemory` of 100 MiB",
            "maxmemory-policy noeviction",
        ];
        clinic
            .run_doctor()
            .await
            .exits(1)
            .has(("warn", "store", "eviction"), &words);
        set(&redis, "maxmemory-policy", "noeviction");
        set(&redis, "maxmemory", "1");
        clinic.run_doctor().await.exits(2).has(
            ("fail", "store", "reached"),
            &["OOM", "raise its `maxmemory`"],
        );
        redis.kill();
        clinic.run_doctor().await.exits(2).has(
            ("fail", "store", "reached"),
            &["Connection refused", "is the store running?"],
        );
    });
}

#[test]
fn doctor_names_a_wrong_password_and_an_untrusted_certificate() {
    run(async {
        let mock = Mock::start().await;
        let (clinic, redis) = (Clinic::over(&mock), Redis::with_password("CaNaRy-store"));
        given(&clinic, redis.url(), "");
        clinic
            .run_doctor()
            .await
            .exits(0)
            .is_well("store", "reached");
        given(
            &clinic,
            &redis.url().replace("CaNaRy-store", "CaNaRy-wrong"),
            "",
        );
        clinic
            .run_doctor()
            .await
            .exits(2)
            .has(("fail", "store", "reached"), &["check user and password"]);
        let ca = Ca::new();
        let redis = Redis::with_tls(&ca.leaf());
        let url = format!("rediss://localhost:{}", redis.port);
        clinic.folder.write("ca.pem", ca.pem());
        given(&clinic, &url, ", tls: { ca: ca.pem }");
        clinic
            .run_doctor()
            .await
            .exits(0)
            .is_well("store", "reached");
        clinic.folder.write("ca.pem", Ca::named("another").pem());
        clinic.run_doctor().await.exits(2).has(
            ("fail", "store", "reached"),
            &["unknown issuer", "`store.tls.ca` must hold"],
        );
    });
}
