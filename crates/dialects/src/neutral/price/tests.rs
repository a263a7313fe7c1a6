use proptest::prelude::*;

use super::*;

fn price(
    [
        input,
        output,
        cached_input,
        cache_write,
        thinking,
        per_request,
    ]: [u64; 6],
) -> Price {
    let rates = Rates {
        input,
        output,
        cached_input,
        cache_write,
        thinking,
    };
    Price {
        rates: Some(rates),
        per_request: Some(Usd(per_request)),
        ..Price::default()
    }
}

fn usage(prompt: u64, completion: u64, cached: u64, cache_write: u64, reasoning: u64) -> Usage {
    Usage {
        prompt,
        completion,
        cached,
        cache_write,
        reasoning,
        source: Source::Reported,
        ..Usage::default()
    }
}

#[test]
fn dollars_are_exact_decimals() {
    for (nanos, text) in [
        (0, "0"),
        (1, "0.000000001"),
        (123_000, "0.000123"),
        (123_450, "0.00012345"),
        (500_000_000, "0.5"),
        (1_000_000_000, "1"),
        (10_000_000_000, "10"),
        (1_000_000_001, "1.000000001"),
        (u64::MAX, "18446744073.709551615"),
    ] {
        assert_eq!(Usd(nanos).to_string(), text);
    }
    assert_eq!(
        format!("[{:>6}|{:<4}]", Usd(500_000_000), Usd::ZERO),
        "[   0.5|0   ]"
    );
}

#[test]
fn each_kind_of_token_has_its_price() {
    // Dollars per million: 3, 15, 0.3, 3.75, 15, and a cent per answer.
    let price = price([
        3_000_000, 15_000_000, 300_000, 3_750_000, 15_000_000, 10_000_000,
    ]);
    let told = price.cost(&usage(1_000, 100, 600, 300, 40));
    assert_eq!(
        told.to_string(),
        "0.013105",
        "100 x 3 + 600 x 0.3 + 300 x 3.75 + 100 x 15 millionths, and a cent"
    );
    assert_eq!(
        price.highest_cost(1_000, 100, &Units::NONE).to_string(),
        "0.01525"
    );
}

#[test]
fn a_long_prompt_makes_all_of_it_dearer() {
    let rates = Rates {
        input: 2_000,
        output: 3_000,
        cached_input: 500,
        cache_write: 4_000,
        thinking: 5_000,
    };
    let price = Price {
        long: Some(LongPrices {
            above: 1_000,
            rates,
        }),
        ..price([1_000, 1_000, 100, 1_000, 1_000, 7])
    };
    assert_eq!(price.cost(&usage(1_000, 10, 0, 0, 0)), Usd(1_000 + 10 + 7));
    assert_eq!(
        price.cost(&usage(1_001, 10, 600, 300, 4)),
        Usd(101 * 2 + 300 + 300 * 4 + 6 * 3 + 4 * 5 + 7)
    );
    assert_eq!(
        price.highest_cost(1_000, 10, &Units::NONE),
        Usd(1_000 + 10 + 7)
    );
    assert_eq!(
        price.highest_cost(1_001, 10, &Units::NONE),
        Usd(1_001 * 4 + 10 * 5 + 7)
    );
}

#[test]
fn units_have_prices_and_sums_are_rounded_once() {
    let each = |text: u64| Some(Each(text));
    // 4 cents a picture, 0.6 cents a minute, 15 dollars for a million characters, a cent an answer.
    let price = Price {
        per_request: Some(Usd(10_000_000)),
        per_image: each(40_000_000_000),
        per_second: each(100_000_000),
        per_character: each(15_000_000),
        ..Price::default()
    };
    let cost = |units: Units| {
        price
            .cost(&Usage {
                units,
                ..usage(7, 7, 0, 0, 0)
            })
            .to_string()
    };
    assert_eq!(
        cost(Units::NONE),
        "0.01",
        "tokens have no price, and cost nothing"
    );
    assert_eq!(
        cost(Units {
            requests: 3,
            ..Units::NONE
        }),
        "0.03"
    );
    assert_eq!(
        cost(Units {
            images: 3,
            ..Units::NONE
        }),
        "0.13"
    );
    assert_eq!(
        cost(Units {
            millis: 12_340,
            ..Units::NONE
        }),
        "0.011234"
    );
    assert_eq!(
        cost(Units {
            characters: 1_001,
            ..Units::NONE
        }),
        "0.025015"
    );
    assert_eq!(
        cost(Units {
            requests: 2,
            images: 1,
            millis: 500,
            characters: 10
        }),
        "0.0602"
    );
    // Alone, each of the two would be rounded down.
    let price = Price {
        per_second: each(3_333_333_333),
        per_character: each(200),
        ..Price::default()
    };
    let units = Units {
        millis: 1,
        characters: 1,
        ..Units::NONE
    };
    assert_eq!(
        price.cost(&Usage {
            units,
            ..usage(0, 0, 0, 0, 0)
        }),
        Usd(3_334),
        "3,333.333333 and 0.2"
    );
}

#[test]
fn pictures_without_a_price_are_charged_for_by_tokens() {
    let rates = Some(Rates {
        output: 1,
        ..Rates::default()
    });
    let by_tokens = Price {
        rates,
        per_request: Some(Usd(1)),
        ..Price::default()
    };
    let each = |picos| Price {
        per_image: Some(Each(picos)),
        ..by_tokens
    };
    assert_eq!(
        (
            by_tokens.image_tokens(2),
            each(0).image_tokens(1),
            each(1).image_tokens(1)
        ),
        (12_480, 6_240, 0)
    );
    assert_eq!(
        (
            by_tokens.image_tokens(0),
            Price::FREE.image_tokens(2),
            Price::default().image_tokens(2)
        ),
        (0, 0, 0)
    );
}

#[test]
fn what_nobody_answered_costs_nothing() {
    let price = price([1, 1, 1, 1, 1, 1_000]);
    assert_eq!(price.cost(&Usage::default()), Usd::ZERO);
    assert_eq!(
        price.cost(&Usage {
            prompt: 10,
            ..Usage::default()
        }),
        Usd::ZERO
    );
    assert_eq!(
        price.cost(&Usage {
            source: Source::Estimated,
            ..Usage::default()
        }),
        Usd(1_000)
    );
    assert_eq!(Price::default().cost(&usage(9, 9, 9, 9, 9)), Usd::ZERO);
}

#[test]
fn half_a_thousand_millionth_is_one() {
    let price = price([1, 0, 1, 1, 0, 0]);
    for (tokens, nanos) in [(0, 0), (499, 0), (500, 1), (1_499, 1), (1_500, 2)] {
        assert_eq!(
            price.cost(&usage(tokens, 0, 0, 0, 0)),
            Usd(nanos),
            "{tokens}"
        );
    }
}

#[test]
fn parts_above_the_whole_count_as_whole() {
    let price = price([1_000, 1_000, 2_000, 3_000, 5_000, 0]);
    assert_eq!(price.cost(&usage(10, 10, 50, 50, 50)), Usd(10 * 2 + 10 * 5));
    assert_eq!(price.cost(&usage(10, 0, 4, 50, 0)), Usd(4 * 2 + 6 * 3));
}

#[test]
fn too_much_is_the_most_there_is() {
    const ALL: Units = Units {
        requests: u32::MAX,
        images: u32::MAX,
        millis: u32::MAX,
        characters: u32::MAX,
    };
    let price = price([u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX]);
    assert_eq!(
        price.cost(&usage(u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX)),
        Usd::MAX
    );
    let each = Some(Each(u64::MAX));
    let price = Price {
        per_image: each,
        per_second: each,
        per_character: each,
        ..price
    };
    assert_eq!(
        price.cost(&Usage {
            units: ALL,
            ..usage(u64::MAX, u64::MAX, 0, 0, 0)
        }),
        Usd::MAX
    );
    assert_eq!(price.highest_cost(u64::MAX, u64::MAX, &ALL), Usd::MAX);
}

fn prices() -> impl Strategy<Value = Price> {
    // As far as the catalog lets them be, and beyond.
    let each = || prop_oneof![0..=1_000_000_000_000_000_u64, any::<u64>()];
    (each(), each(), each(), each(), each(), any::<u64>())
        .prop_map(|(a, b, c, d, e, f)| price([a, b, c, d, e, f]))
}

/// Those to which long prompts may be dearer, or cheaper, too.
fn long_prices() -> impl Strategy<Value = Price> {
    let above = prop_oneof![0..=10_000_000_u64, any::<u64>()];
    (prices(), prices(), above, any::<bool>()).prop_map(|(short, long, above, has_long)| Price {
        long: has_long.then_some(LongPrices {
            above,
            rates: long.rates.unwrap(),
        }),
        ..short
    })
}

/// Those of pictures, sound and characters.
fn unit_prices() -> impl Strategy<Value = Price> {
    let each = || {
        prop::option::of(prop_oneof![0..=1_000_000_000_000_000_u64, any::<u64>()].prop_map(Each))
    };
    (
        each(),
        each(),
        each(),
        prop::option::of(0..=1_000_000_000_000_u64),
    )
        .prop_map(|(image, second, character, request)| Price {
            per_request: request.map(Usd),
            per_image: image,
            per_second: second,
            per_character: character,
            ..Price::default()
        })
}

fn units() -> impl Strategy<Value = Units> {
    (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(
        |(requests, images, millis, characters)| Units {
            requests,
            images,
            millis,
            characters,
        },
    )
}

fn usages() -> impl Strategy<Value = Usage> {
    let tokens = || prop_oneof![0..=10_000_000_u64, any::<u64>()];
    (tokens(), tokens(), tokens(), tokens(), tokens())
        .prop_map(|(a, b, c, d, e)| usage(a, b, c, d, e))
}

proptest! {
    #[test]
    fn dollars_come_back(nanos: u64) {
        let text = Usd(nanos).to_string();
        let (whole, decimals) = text.split_once('.').unwrap_or((&text, ""));
        prop_assert_eq!(format!("{whole}{decimals:0<9}").parse(), Ok(nanos));
    }

    #[test]
    fn dollars_are_json_numbers(nanos: u64) {
        let text = Usd(nanos).to_string();
        prop_assert!(serde_json::from_str::<serde_json::Number>(&text).is_ok());
        prop_assert!(!text.contains(['e', 'E', '+', '-']));
    }

    /// In numbers that are small enough for plain sums.
    #[test]
    fn costs_are_exact(
        each in prop::array::uniform5(0..=1_000_000_000_000_000_u64),
        tokens in prop::array::uniform5(0..=1_000_000_u64),
        per_request in 0..=1_000_000_000_000_u64,
    ) {
        let [input, output, cached_input, cache_write, thinking] = each;
        let [plain, cached, written, said, thought] = tokens;
        let price = price([input, output, cached_input, cache_write, thinking, per_request]);
        let picos: u128 = [(plain, input), (cached, cached_input), (written, cache_write), (said, output), (thought, thinking)]
            .map(|(tokens, each)| u128::from(tokens) * u128::from(each)).iter().sum();
        let nanos = picos / 1_000 + u128::from(picos % 1_000 >= 500) + u128::from(per_request);
        let cost = price.cost(&usage(plain + cached + written, said + thought, cached, written, thought));
        prop_assert_eq!(cost, Usd(u64::try_from(nanos).unwrap_or(u64::MAX)).min(Usd::MAX));
    }

    #[test]
    fn more_tokens_never_cost_less(price in prices(), usage in usages(), prompt: u64, completion: u64) {
        let more = Usage {
            prompt: usage.prompt.saturating_add(prompt), completion: usage.completion.saturating_add(completion), ..usage
        };
        // A count beyond its whole is no count of tokens.
        let usage = Usage { cached: usage.cached.min(usage.prompt), cache_write: 0, reasoning: usage.reasoning.min(usage.completion), ..usage };
        let more = Usage { cached: usage.cached, cache_write: 0, reasoning: usage.reasoning, ..more };
        prop_assert!(price.cost(&usage) <= price.cost(&more));
    }

    #[test]
    fn to_reserve_more_never_costs_less(price in long_prices(), usage in usages(), prompt: u64, completion: u64) {
        let more = (usage.prompt.saturating_add(prompt), usage.completion.saturating_add(completion));
        let more = price.highest_cost(more.0, more.1, &Units::NONE);
        prop_assert!(price.highest_cost(usage.prompt, usage.completion, &Units::NONE) <= more);
    }

    #[test]
    fn nothing_costs_more_than_was_reserved(price in long_prices(), usage in usages(), prompt: u64, completion: u64) {
        let most = (usage.prompt.saturating_add(prompt), usage.completion.saturating_add(completion));
        prop_assert!(price.cost(&usage) <= price.highest_cost(most.0, most.1, &usage.units));
    }

    /// In numbers that are small enough for plain sums.
    #[test]
    fn costs_of_units_are_exact(
        each in prop::array::uniform3(0..=1_000_000_000_000_u64),
        units in prop::array::uniform4(0..=1_000_000_u32),
        per_request in 0..=1_000_000_000_u64,
        tokens in 0..=1_000_000_u64,
    ) {
        let ([image, second, character], [requests, images, millis, characters]) = (each, units);
        let rates = Some(Rates { input: 3, ..Rates::default() });
        let [per_image, per_second, per_character] = each.map(|each| Some(Each(each)));
        let price = Price { rates, per_request: Some(Usd(per_request)), per_image, per_second, per_character, long: None };
        let of_units = u128::from(images) * u128::from(image) + u128::from(characters) * u128::from(character);
        let femtos = (of_units + u128::from(tokens) * 3) * 1_000 + u128::from(millis) * u128::from(second);
        let nanos = femtos / 1_000_000 + u128::from(femtos % 1_000_000 >= 500_000);
        let all = nanos + u128::from(per_request) * u128::from(requests.max(1));
        let units = Units { requests, images, millis, characters };
        let cost = price.cost(&Usage { units, ..usage(tokens, 0, 0, 0, 0) });
        prop_assert_eq!(cost, Usd(u64::try_from(all).unwrap_or(u64::MAX)).min(Usd::MAX));
    }

    #[test]
    fn no_unit_costs_more_than_was_reserved(price in unit_prices(), units in units(), more in units()) {
        let all = Units {
            requests: units.requests.saturating_add(more.requests),
            images: units.images.saturating_add(more.images),
            millis: units.millis.saturating_add(more.millis),
            characters: units.characters.saturating_add(more.characters),
        };
        let cost = price.cost(&Usage { units, ..usage(1, 1, 0, 0, 0) });
        prop_assert!(cost <= price.highest_cost(1, 1, &all));
    }
}
