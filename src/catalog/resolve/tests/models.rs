//! Models, their aliases and fallbacks.

use super::*;
use crate::catalog::Permissions;
use crate::catalog::globs::Globs;
use crate::conf::price::Origin;

#[test]
fn models_as_written_and_by_default() {
    let catalog = read_one(
        "accounts: {a: {dialect: demo}, off: {dialect: demo, enabled: false}}\nmodels:\n  z: {targets: [{account: off}]}\n  fast:\n    aliases: [small, gpt-4o]\n    strategy: \
         weighted\n    targets: [{account: a, model: x/y, weight: 8}, {account: off}]\n    fallbacks: [z]\n    defaults: {max_tokens: 1024}\n    created: 2026-02-01\n    owned_by: \
         acme\ncallers: {someone: {}}\n",
    );
    let [fast, z] = catalog.models() else {
        panic!()
    };
    assert_eq!(
        (&*fast.id, fast.index, z.index, fast.strategy, z.strategy),
        ("fast", 0, 1, Strategy::Weighted, Strategy::Priority)
    );
    assert_eq!(
        fast.aliases
            .iter()
            .map(|alias| &**alias)
            .collect::<Vec<_>>(),
        ["gpt-4o", "small"]
    );
    assert_eq!(
        fast.targets
            .iter()
            .map(|t| (&*t.account.id, &*t.model, t.weight))
            .collect::<Vec<_>>(),
        [("a", "x/y", 8), ("off", "fast", 1)]
    );
    assert_eq!(
        (fast.max_tokens, fast.created, &*fast.owned_by),
        (Some(1024), 1_769_904_000, "acme")
    );
    assert_eq!(
        (z.max_tokens, z.created, &*z.owned_by),
        (None, 1_767_225_600, "portcullis")
    );
    assert!(fast.has_enabled_account() && !z.has_enabled_account());
    for name in ["fast", "gpt-4o", "small"] {
        assert!(Arc::ptr_eq(&catalog.model(name).unwrap(), fast), "{name}");
    }
    assert!(catalog.model("Fast").is_none());
    assert_eq!(catalog.warnings.len(), 1);
    assert!(
        catalog.warnings[0]
            .to_string()
            .starts_with("catalog.yaml:3 models.z: is not served")
    );
}

#[test]
fn what_is_wrong_with_a_model() {
    check_models(
        "  m: {}",
        &["5 models.m.targets: must list at least one target"],
    );
    check_models(
        "  m: {targets: []}",
        &["5 models.m.targets: must list at least one target"],
    );
    check_models(
        "  m: {targets: [{}]}",
        &["5 models.m.targets[0].account: is missing"],
    );
    check_models(
        "  m: {targets: [5, {account: x}]}",
        &[
            "5 models.m.targets[0]: must be a map",
            "5 models.m.targets[1].account: no such account; allowed: off, openai (column 30)",
        ],
    );
    check_models(
        "  m: {targets: [{account: openai}, {account: openai, model: m}]}",
        &["5 models.m.targets[1]: has the same account and model"],
    );
    check_models(
        "  m: {targets: [{account: openai}, {account: openai, model: n}]}",
        &[],
    );
    check_models(
        "  m: {targets: [{account: openai, model: ''}]}",
        &["5 models.m.targets[0].model: must be 1 to 512 bytes"],
    );
    check_models(
        "  m**: {targets: [{account: openai}]}",
        &["5 models.…: a pattern of model ids holds one `*`"],
    );
    check_models(
        "  m?: {targets: [{account: openai}]}",
        &["5 models.…: a pattern of model ids holds one `*`"],
    );
    check_models(
        "  m: {targets: [{account: openai}], defaults: {max_tokens: 0}}",
        &["5 models.m.defaults.max_tokens: must be at least 1"],
    );
    check_models(
        "  m: {targets: [{account: openai}], defaults: {temperature: 1}}",
        &["5 models.m.defaults.…: unknown field; allowed: max_tokens"],
    );
    check_models(
        "  m: {targets: [{account: openai}], created: 2026-02-30, owned_by: ''}",
        &[
            "5 models.m.created: must be a time",
            "5 models.m.owned_by: must be",
        ],
    );
}

#[test]
fn an_alias_may_be_a_glob() {
    const T: &str = "targets: [{account: a}]";
    let catalog = read_one(&format!(
        "accounts: {{a: {{dialect: demo}}}}\nmodels:\n  any: {{aliases: ['*'], catch_all: true, {T}}}\n  smart: {{aliases: ['claude-*', 'claude-?-x', exact], {T}}}\n  quick: {{aliases: ['claude-haiku-*'], {T}}}\n  claude-own: {{aliases: [claude-alias], {T}}}\ncallers: {{someone: {{}}}}\n"
    ));
    for (name, model) in [
        ("claude-opus-4-5", "smart"),
        ("claude-haiku-4-5", "quick"),
        ("claude-own", "claude-own"),
        ("claude-alias", "claude-own"),
        ("exact", "smart"),
        ("gpt-4o", "any"),
    ] {
        assert_eq!(&*catalog.model(name).unwrap().id, model, "{name}");
    }
    let smart = catalog.model("smart").unwrap();
    assert!(
        smart.is_called("smart") && smart.is_called("exact") && !smart.is_called("claude-opus-4-5")
    );
    assert_eq!(
        smart
            .aliases
            .iter()
            .map(|alias| &**alias)
            .collect::<Vec<_>>(),
        ["exact"],
        "globs are not listed"
    );

    const O: &str = "targets: [{account: openai}]";
    check_models(
        &format!("  m: {{aliases: ['*-x'], {O}}}"),
        &["5 models.m.aliases[0]: \"*-x\" begins with a wildcard"],
    );
    check_models(
        &format!("  m: {{aliases: ['a-*'], {O}}}\n  n: {{aliases: ['a-*-b'], {O}}}"),
        &["6 models.n.aliases[0]: \"a-*-b\" begins as \"a-*\" of \"m\" does"],
    );
    check_models(
        &format!("  m: {{aliases: ['a *'], {O}}}"),
        &["5 models.m.aliases[0]: a model id has"],
    );
}

#[test]
fn a_model_may_be_a_pattern() {
    let catalog = read_one(
        "accounts: {o: {dialect: openai, key: {env: KEY}}, v: {dialect: openai, base_url: 'http://127.0.0.1:1'}}\nmodels:\n  \
         'openai/*': {targets: [{account: o, model: '*'}]}\n  'openai/gpt-4*': {targets: [{account: o, model: 'gpt-4*'}], \
         fallbacks: [openai/o3]}\n  'v-*': {targets: [{account: v}], price: {input: 1, output: 2}}\n  \
         m: {targets: [{account: v}], fallbacks: [openai/o3, v-x]}\ncallers:\n  c: {models: ['openai/gpt-4o', 'nothing']}\n",
    );
    let ids: Vec<&str> = catalog.models().iter().map(|model| &*model.id).collect();
    assert_eq!(
        ids,
        ["m", "openai/*", "openai/gpt-4*", "openai/o3", "v-*", "v-x"],
        "those that others name are there"
    );
    assert!(
        catalog
            .models()
            .iter()
            .enumerate()
            .all(|(index, model)| model.index == index)
    );
    // Nobody has fetched a list yet.
    let of = |id: &str| {
        catalog.model(id).map(|model| {
            (
                model.targets[0].model.to_string(),
                model.label().to_string(),
            )
        })
    };
    let is = |model: &str, pattern: &str| Some((model.to_owned(), pattern.to_owned()));
    assert_eq!(of("openai/o4"), is("o4", "openai/*"));
    assert_eq!(of("openai/gpt-4o"), is("gpt-4o", "openai/gpt-4*"));
    assert_eq!(of("openai/o3"), is("o3", "openai/*"));
    assert_eq!(
        (of("v-y"), of("openai/ft:x"), of("openai/*"), of("w")),
        (is("v-y", "v-*"), None, None, None)
    );
    let all = Permissions {
        of_caller: Globs::everything(),
        of_key: Globs::everything(),
        index: 0,
    };
    assert!(
        catalog.visible_to(&all, "openai/o4").is_none()
            && catalog.model_awaiting_list(&all, "openai/o4").is_some()
    );
    let priced = |id: &str| {
        catalog
            .model(id)
            .and_then(|model| model.targets[0].price_from)
    };
    assert_eq!(
        (
            priced("openai/gpt-4o"),
            priced("openai/none"),
            priced("v-y")
        ),
        (Some(Origin::List), None, Some(Origin::Model))
    );
    let told: Vec<String> = catalog.warnings.iter().map(ToString::to_string).collect();
    let unknown: Vec<_> = told
        .iter()
        .filter(|told| told.contains("callers."))
        .collect();
    assert!(
        unknown.len() == 1 && unknown[0].contains("models[1]: there is no such model"),
        "{told:?}"
    );

    let check_patterns = |models: &str, expected: &[&str]| {
        let expected: Vec<String> = expected
            .iter()
            .map(|expected| format!("catalog.yaml:{expected}"))
            .collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let text = format!(
            "accounts:\n  o: {{dialect: ollama}}\n  d: {{dialect: demo}}\nmodels:\n{models}\ncallers: {{}}\n"
        );
        check_all(&[&text], &expected);
    };
    check_patterns(
        "  'a*': {targets: [{account: o, model: x}]}\n  'b*': {targets: [{account: o, model: '*-*'}]}",
        &[
            "5 models.\"a*\".targets[0].model: must hold one `*`",
            "6 models.\"b*\".targets[0].model: must hold one `*`",
        ],
    );
    check_patterns(
        "  'a*': {targets: [{account: d}]}",
        &[
            "5 models.\"a*\".targets[0].account: has a dialect whose servers do not list their models",
        ],
    );
    check_patterns(
        "  'a*': {targets: [{account: o, traits: {tools: false}}], aliases: [b]}",
        &[
            "5 models.\"a*\".aliases: is not for a pattern",
            "5 models.\"a*\".targets[0].traits: is not for a pattern",
        ],
    );
    check_patterns(
        "  'a*': {targets: [{account: o}]}\n  'a*b': {targets: [{account: o}]}",
        &[
            "5 models.\"a*\": begins as \"a*b\" does",
            "6 models.\"a*b\": begins as \"a*\" does",
        ],
    );
    check_patterns(
        "  'a*': {targets: [{account: o}]}\n  m: {targets: [{account: o}], fallbacks: ['a*'], aliases: ['a*b']}",
        &[
            "6 models.m.aliases[0]: \"a*b\" begins as \"a*\" of \"a*\" does",
            "6 models.m.fallbacks[0]: \"a*\" is a pattern: write the name",
        ],
    );
}

#[test]
fn aliases_and_fallbacks() {
    const T: &str = "targets: [{account: openai}]";
    check_models(
        &format!("  m: {{aliases: [n], {T}}}\n  n: {{{T}}}"),
        &["5 models.m.aliases[0]: \"n\" is already the id of a model"],
    );
    check_models(
        &format!("  m: {{aliases: [m], {T}}}"),
        &["5 models.m.aliases[0]: \"m\" is already the id of a model"],
    );
    check_models(
        &format!("  m: {{aliases: [x, x], {T}}}"),
        &["5 models.m.aliases[1]: \"x\" is already an alias of \"m\""],
    );
    check_models(
        &format!("  m: {{aliases: [x], {T}}}\n  n: {{aliases: [x], {T}}}"),
        &["6 models.n.aliases[0]: \"x\" is already an alias of \"m\""],
    );
    check_models(
        &format!("  m: {{aliases: ['a b'], {T}}}"),
        &["5 models.m.aliases[0]: a model id has"],
    );
    check_models(
        &format!("  m: {{fallbacks: [m], {T}}}"),
        &["5 models.m.fallbacks[0]: is the model itself"],
    );
    check_models(
        &format!("  m: {{fallbacks: [n, n], {T}}}\n  n: {{{T}}}"),
        &["5 models.m.fallbacks[1]: \"n\" is written twice"],
    );
    check_models(
        &format!("  m: {{fallbacks: [x], {T}}}\n  n: {{aliases: [x], {T}}}"),
        &["5 models.m.fallbacks[0]: \"x\" is an alias: write \"n\""],
    );
    check_models(
        &format!("  model: {{{T}}}\n  n: {{fallbacks: [modle], {T}}}"),
        &["6 models.n.fallbacks[0]: no model \"modle\"; did you mean \"model\"?"],
    );
    // Fallbacks are not followed, so models may stand in for each other.
    check_models(
        &format!("  a: {{fallbacks: [b], {T}}}\n  b: {{fallbacks: [a], {T}}}"),
        &[],
    );
    // A chain may be as long as the catalog.
    let chain = (0..20_000).fold(String::new(), |text, i| {
        text + &format!("  m{i}: {{fallbacks: [m{}], {T}}}\n", i + 1)
    }) + &format!("  m20000: {{{T}}}");
    check_models(&chain, &[]);
}
