use crate::front::CHAT;
use crate::front::references::{AllowedReferences, Urls};
use crate::neutral::Refused;
use crate::wire::json;
use proptest::prelude::*;

const NOTHING: AllowedReferences = AllowedReferences::NOTHING;
const NEAR: AllowedReferences = AllowedReferences {
    urls: Urls::NoneForNearServer,
    ..NOTHING
};

/// The field that is refused, if one is.
#[track_caller]
fn refused(leave: AllowedReferences, body: &str) -> Option<String> {
    let envelope = CHAT.envelope(body.as_bytes()).expect("a good request");
    let seen = envelope.may_refer();
    let all = crate::front::Envelope {
        conversation_may_refer: true,
        ..envelope
    };
    let refused = match all.check_references(&leave, body.as_bytes()) {
        Ok(()) => None,
        Err(Refused::Unsupported(complaint)) => Some(complaint.param),
        Err(Refused::Invalid(complaint)) => panic!("another account may: {complaint:?}"),
    };
    assert!(
        seen || refused.is_none(),
        "the envelope must tell that there is something to look at: {body}"
    );
    refused
}

fn message(rest: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"system","content":"s"}},{{{rest}}}]}}"#)
}

fn part(part: &str) -> String {
    message(&format!(
        r#""role":"user","content":[{{"type":"text","text":"what is http://10.0.0.1/?"}},{part}]"#
    ))
}

fn image(url: &str) -> String {
    let url = json::quote_string(url);
    part(&format!(
        r#"{{"type":"image_url","image_url":{{"url":{url},"detail":"low"}}}}"#
    ))
}

#[track_caller]
fn check(leave: AllowedReferences, body: &str, expected: Option<&str>) {
    assert_eq!(
        refused(leave, body).as_deref(),
        expected,
        "{leave:?} {body}"
    );
}

#[test]
fn account_readable_things_are_refused_unless_allowed() {
    let file = |id: &str| part(&format!(r#"{{"type":"file","file":{{"file_id":"{id}"}}}}"#));
    let all = [
        (
            "gs",
            AllowedReferences {
                gs: true,
                ..NOTHING
            },
        ),
        (
            "s3",
            AllowedReferences {
                s3: true,
                ..NOTHING
            },
        ),
        (
            "files",
            AllowedReferences {
                files: true,
                ..NOTHING
            },
        ),
    ];
    for (word, body, param) in [
        (
            "gs",
            image("gs://bucket/a.png"),
            "messages[1].content[1].image_url",
        ),
        (
            "gs",
            image(" \n GS://bucket/a.png"),
            "messages[1].content[1].image_url",
        ),
        (
            "gs",
            image("g\ts://bucket/a.png"),
            "messages[1].content[1].image_url",
        ),
        (
            "gs",
            part(r#"{"type":"file","file":{"file_data":"gs://bucket/a.pdf"}}"#),
            "messages[1].content[1].file",
        ),
        (
            "s3",
            image("s3://bucket/a.png"),
            "messages[1].content[1].image_url",
        ),
        ("files", file("file-abc"), "messages[1].content[1].file"),
        (
            "files",
            part(r#"{"type":"file","file_id":"file-abc"}"#),
            "messages[1].content[1].file_id",
        ),
        (
            "files",
            part(r#"{"type":"image","source":{"type":"file","file\u005fid":"file-abc"}}"#),
            "messages[1].content[1].source",
        ),
        (
            "files",
            image("https://generativelanguage.googleapis.com/v1beta/files/abc"),
            "messages[1].content[1].image_url",
        ),
    ] {
        for (allowed, leave) in all {
            check(leave, &body, (allowed != word).then_some(param));
            check(
                AllowedReferences {
                    urls: Urls::Any,
                    ..leave
                },
                &body,
                (allowed != word).then_some(param),
            );
        }
        check(AllowedReferences::ALL, &body, None);
    }
    check(NOTHING, &file(""), None);
}

#[test]
fn azures_data_sources_are_read_with_the_accounts_rights() {
    let with = |field: &str| {
        format!(r#"{{"model":"m",{field},"messages":[{{"role":"user","content":"x"}}]}}"#)
    };
    for name in ["data_sources", "dataSources", r"data\u005fsources"] {
        let body = with(&format!(r#""{name}":[{{"type":"azure_search"}}]"#));
        check(
            NOTHING,
            &body,
            Some(if name == "dataSources" {
                name
            } else {
                "data_sources"
            }),
        );
        check(
            AllowedReferences {
                data_sources: true,
                ..NOTHING
            },
            &body,
            None,
        );
        check(NOTHING, &with(&format!(r#""{name}":[]"#)), None);
    }
}

#[test]
fn stored_things_are_read_with_account_rights() {
    let with = |field: &str| {
        format!(r#"{{"model":"m",{field},"messages":[{{"role":"user","content":"x"}}]}}"#)
    };
    for field in [
        r#""cached_content":"cachedContents/a""#,
        r#""cachedContent":"cachedContents/a""#,
        r#""extra_body":{"google":{"cached_content":"cachedContents/a","thinking_config":{}}}"#,
        r#""extra_body":{"google":{"cachedContent":"cachedContents/a"}}"#,
        r#""extra_body":{"Google":{"Cached_Content":"cachedContents/a"}}"#,
        r#""extra_body":{"cached\u005fcontent":"cachedContents/a"}"#,
        r#""extra_body":{"extra_body":{"google":{"cached_content":"cachedContents/a"}}}"#,
        r#""google":{"cached_content":"cachedContents/a"}"#,
    ] {
        assert!(refused(NOTHING, &with(field)).is_some(), "{field}");
        check(
            AllowedReferences {
                cached: true,
                ..NOTHING
            },
            &with(field),
            None,
        );
    }
    for field in [
        r#""cached_content":null"#,
        r#""extra_body":{"google":{"thinking_config":{}}}"#,
        r#""extra_body":7"#,
        r#""metadata":{"cached_content":"a"}"#,
    ] {
        check(NOTHING, &with(field), None);
    }
}

#[test]
fn a_long_url_is_not_judged_by_its_beginning() {
    let long = "a".repeat(70_000);
    for url in [
        format!("https://a.{long}\t.com@127.0.0.1/"),
        format!("https://a.{long}.com@127.0.0.1/"),
        format!("https://a.com/\n{long}"),
        format!("h{}ttps://a.com/{long}", "\t".repeat(70_000)),
        format!("/{long}://"),
    ] {
        check(
            NOTHING,
            &image(&url),
            Some("messages[1].content[1].image_url"),
        );
        check(
            AllowedReferences {
                urls: Urls::Any,
                ..NOTHING
            },
            &image(&url),
            None,
        );
    }
    check(
        AllowedReferences {
            urls: Urls::Any,
            ..NOTHING
        },
        &image(&format!("g\ns://{long}")),
        Some("messages[1].content[1].image_url"),
    );
    check(
        NOTHING,
        &image(&format!("https://a.com/{}", "a".repeat(60_000))),
        None,
    );
    // As MIME writes base64.
    check(
        NEAR,
        &image(&format!("iVBORw0KGgo{}", "AAAA\r\n".repeat(20_000))),
        None,
    );
    check(
        NEAR,
        &image(&format!(
            "data:image/png;base64,{}",
            "AAAA\r\n".repeat(20_000)
        )),
        None,
    );
}

#[test]
fn a_reference_is_found_behind_what_servers_look_past() {
    for url in [
        "\u{a0}gs://b/a",
        "<gs://b/a>",
        "\"gs://b/a\"",
        "'GS://b/a'",
        "\u{feff}g\ts://b/a",
        "see:gs://b/a",
        "a/b gs://b/a",
    ] {
        check(
            AllowedReferences {
                urls: Urls::Any,
                s3: true,
                ..NOTHING
            },
            &image(url),
            Some("messages[1].content[1].image_url"),
        );
        check(
            AllowedReferences {
                gs: true,
                ..NOTHING
            },
            &image(url),
            None,
        );
        let s3 = url
            .to_ascii_lowercase()
            .replace("gs:", "S3:")
            .replace("g\ts:", "s\t3a:");
        check(
            AllowedReferences {
                urls: Urls::Any,
                gs: true,
                ..NOTHING
            },
            &image(&s3),
            Some("messages[1].content[1].image_url"),
        );
        check(
            AllowedReferences {
                s3: true,
                ..NOTHING
            },
            &image(&s3),
            None,
        );
    }
    let data =
        part(r#"{"type":"input_audio","input_audio":{"data":"\u00a0gs://b/a","format":"wav"}}"#);
    check(NOTHING, &data, Some("messages[1].content[1].input_audio"));
    for url in [
        "\u{a0}https://127.0.0.1/",
        "<http://10.0.0.1/>",
        "x http://10.0.0.1/",
    ] {
        check(
            NOTHING,
            &image(url),
            Some("messages[1].content[1].image_url"),
        );
    }
    // The Gemini API's own, however its path is written.
    for url in [
        "https://generativelanguage.googleapis.com/v1beta/f%69les/a",
        "https://GenerativeLanguage.googleapis.com/x",
        "https://a@generativelanguage.googleapis.com",
    ] {
        check(
            AllowedReferences {
                urls: Urls::Any,
                ..NOTHING
            },
            &image(url),
            Some("messages[1].content[1].image_url"),
        );
        check(
            AllowedReferences {
                files: true,
                urls: Urls::Any,
                ..NOTHING
            },
            &image(url),
            None,
        );
    }
    for name in ["File_ID", "FILE_ID", "fileID"] {
        check(
            NOTHING,
            &part(&format!(
                r#"{{"type":"file","file":{{"{name}":"file-abc"}}}}"#
            )),
            Some("messages[1].content[1].file"),
        );
    }
    // A text is a text.
    check(
        NOTHING,
        &part(
            r#"{"type":"tool_result","content":"the bucket is gs://b/a, behind http://10.0.0.1/"}"#,
        ),
        None,
    );
}

#[test]
fn a_url_goes_up_if_anybody_could_fetch_it() {
    for url in [
        "https://example.com/a.png",
        "HTTPS://example.com:8443/a.png?x=http://10.0.0.1",
        "https://8.8.8.8/a",
        "https://[2606:4700::1111]/a",
        "data:image/png;base64,AAAA",
        "DATA:image/png;base64,AAAA",
    ] {
        check(NOTHING, &image(url), None);
    }
    for url in [
        "http://example.com/a.png",
        "https://localhost/a",
        "https://127.0.0.1/a",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://0177.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://metadata.google.internal/",
        "https://vllm/",
        "https://example.com@127.0.0.1/",
        "https://127.0.0.1\\@example.com/",
        "https://example.com\\@127.0.0.1/",
        "https:127.0.0.1/",
        "https:/127.0.0.1/",
        "https:\\\\127.0.0.1/",
        "https:///127.0.0.1/",
        "https://127.0.0.1#example.com",
        "https://127.0.0.1?example.com",
        "https://１２７.0.0.1/",
        "https://%6cocalhost/",
        "https://example.com:80x/",
        " https://10.0.0.1/",
        "ht\ntps://10.0.0.1/",
        "https://10.0.\t0.1/",
        "file:///etc/passwd",
        "ftp://example.com/a",
        "oss://bucket/a",
    ] {
        check(
            NOTHING,
            &image(url),
            Some("messages[1].content[1].image_url"),
        );
        check(NEAR, &image(url), Some("messages[1].content[1].image_url"));
        check(
            AllowedReferences {
                urls: Urls::Any,
                ..NOTHING
            },
            &image(url),
            None,
        );
    }
}

/// Wherever the server stands, it may have files.
#[test]
fn a_path_for_a_url_needs_the_accounts_permission() {
    for path in [
        "/etc/passwd",
        "etc/passwd",
        "~/.ssh/id_rsa",
        "C:\\secret.png",
        "\\\\host\\a",
        "../a.png",
    ] {
        check(
            NOTHING,
            &image(path),
            Some("messages[1].content[1].image_url"),
        );
        check(
            AllowedReferences {
                urls: Urls::Any,
                ..NOTHING
            },
            &image(path),
            None,
        );
    }
    for data in [
        "data:image/png;base64,AA",
        "/9j/4AAQSkZJRg==",
        "iVBORw0KGgo=",
    ] {
        check(NOTHING, &image(data), None);
    }
}

#[test]
fn the_operators_network_fetches_nothing_for_callers() {
    let long = "A".repeat(400);
    for url in [
        "https://example.com/a.png",
        "http://8.8.8.8/",
        "/etc/passwd",
        "etc/passwd",
        "~/.ssh/id_rsa",
        "C:\\secret.png",
        "\\\\host\\a",
    ] {
        check(NEAR, &image(url), Some("messages[1].content[1].image_url"));
        check(
            AllowedReferences {
                urls: Urls::None,
                ..NOTHING
            },
            &image(url),
            Some("messages[1].content[1].image_url"),
        );
    }
    for url in [
        "data:image/png;base64,AA",
        "/9j/4AAQSkZJRg==",
        "iVBORw0KGgo=",
        &long,
    ] {
        check(NEAR, &image(url), None);
    }
    let parts = [
        r#"{"type":"image_url","image_url":"https://x.com/a"}"#,
        r#"{"type":"video_url","video_url":{"url":"https://x.com/a"}}"#,
        r#"{"type":"input_audio","input_audio":{"data":"https://x.com/a","format":"wav"}}"#,
        r#"{"type":"file","file":{"file_data":"https://x.com/a"}}"#,
        r#"{"type":"document_url","document_url":"https://x.com/a"}"#,
        r#"{"type":"image","source":{"type":"url","url":"https://x.com/a"}}"#,
        r#"{"type":"video","video":["https://x.com/a"]}"#,
        r#"{"type":"tool_result","content":[{"type":"image","source":{"url":"https://x.com/a"}}]}"#,
        r#"{"type":"audio","audio":{"url":"https://x.com/a"}}"#,
        r#"{"\u0069mage_url":{"url":"https:\/\/x.com\/a"},"type":"image_url"}"#,
    ];
    for body in parts {
        let member = refused(NEAR, &part(body)).unwrap_or_else(|| panic!("{body}"));
        assert!(member.starts_with("messages[1].content[1]."), "{member}");
        check(NOTHING, &part(body), None);
    }
    let tool = r#""role":"tool","tool_call_id":"c","content":[{"type":"image_url","image_url":{"url":"https://x.com/a"}}]"#;
    check(
        NEAR,
        &message(tool),
        Some("messages[1].content[0].image_url"),
    );
    check(
        NEAR,
        &message(
            r#""role":"user","content":{"type":"image_url","image_url":{"url":"https://x.com/a"}}"#,
        ),
        Some("messages[1].content.image_url"),
    );
    check(
        NEAR,
        &message(r#""role":"user","content":"a","images":["https://x.com/a"]"#),
        Some("messages[1].images[0]"),
    );
}

#[test]
fn words_are_no_references() {
    for rest in [
        r#""role":"user","content":"see http://10.0.0.1/, gs://b/a, file-abc""#,
        r#""role":"user","content":[{"type":"text","text":"http://10.0.0.1/"}]"#,
        r#""role":"assistant","content":[{"type":"thinking","thinking":"http://10.0.0.1/","signature":"gs://"}]"#,
        r#""role":"assistant","content":null,"audio":{"id":"audio_1"},"annotations":[{"url_citation":{"url":"http://10.0.0.1/"}}]"#,
        r#""role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"url\":\"http://10.0.0.1\"}"}}]"#,
        r#""role":"tool","tool_call_id":"http://10.0.0.1/","content":"gs://b/a""#,
    ] {
        let body = message(rest);
        check(
            AllowedReferences {
                urls: Urls::None,
                ..NOTHING
            },
            &body,
            None,
        );
        assert!(
            !CHAT
                .envelope(body.as_bytes())
                .unwrap()
                .conversation_may_refer,
            "nothing is looked at twice: {body}"
        );
    }
    check(
        NEAR,
        &part(r#"{"type":"input_audio","input_audio":{"data":"UklGRg==","format":"wav"}}"#),
        None,
    );
    check(
        NEAR,
        &part(
            r#"{"type":"file","file":{"file_data":"data:text/plain;base64,AA","filename":"a/b.txt"}}"#,
        ),
        None,
    );
}

proptest! {
    /// However a private address is written, and whatever stands around it.
    #[test]
    fn no_spelling_of_a_private_address_passes(
        ip in prop_oneof![Just([127u8, 0, 0, 1]), Just([10, 1, 2, 3]), Just([192, 168, 0, 9]), Just([169, 254, 169, 254]), Just([172, 16, 5, 4])],
        parts in 1usize..=4,
        bases in prop::array::uniform4(0u8..4),
        dot in any::<bool>(),
        before in "[a-z.]{0,4}[@\\\\]?",
        after in "(:[0-9]{1,4})?[/?#\\\\]?[a-z.@]{0,8}",
        v6 in 0u8..4,
    ) {
        let whole = u32::from_be_bytes(ip);
        let write = |number: u32, base: u8| match base {
            0 => format!("{number}"),
            1 => format!("0{number:o}"),
            2 => format!("0x{number:x}"),
            _ => format!("0X{number:X}"),
        };
        let last = u64::from(whole) & ((1u64 << (8 * (5 - parts))) - 1);
        let mut words: Vec<String> = ip.iter().zip(bases).take(parts - 1).map(|(part, base)| write(u32::from(*part), base)).collect();
        words.push(write(u32::try_from(last).unwrap(), bases[3]));
        let [high, low] = [whole >> 16, whole & 0xffff];
        let host = match v6 {
            1 => format!("[::ffff:{high:x}:{low:x}]"),
            2 => format!("[64:ff9b::{high:x}:{low:x}]"),
            3 => format!("[2002:{high:x}:{low:x}::1]"),
            _ => format!("{}{}", words.join("."), if dot { "." } else { "" }),
        };
        // A text glued to the front makes another host of it, which is none of ours.
        let before = if before.ends_with(['@', '\\']) { before } else { String::new() };
        let body = image(&format!("https://{before}{host}{after}"));
        prop_assume!(before.is_empty() || !before.ends_with('\\') || !before.starts_with(|c: char| c.is_ascii_alphabetic()) || !before.contains('.'));
        let glued = after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.');
        prop_assume!(!glued);
        prop_assert!(refused(NOTHING, &body).is_some(), "{body}");
    }

    /// The reading never fails on a body that the envelope took, and it reads every text that could
    /// be refused.
    #[test]
    fn what_is_refused_was_seen_by_the_envelope(
        name in "(url|image_url|file_id|text|data|content|x)", inner in "(url|file_id|text|data|uri)",
        value in "(gs://b/a|http://10\\.0\\.0\\.1/|file-1|/etc/passwd|words: so|data:,)",
        shape in 0u8..4,
    ) {
        let held = match shape {
            0 => format!(r#"{{"{name}":"{value}"}}"#),
            1 => format!(r#"{{"{name}":{{"{inner}":"{value}"}}}}"#),
            2 => format!(r#"{{"{name}":[{{"{inner}":"{value}"}},"{value}"]}}"#),
            _ => format!(r#"{{"type":"{name}","{name}":[[["{value}"]]]}}"#),
        };
        refused(NEAR, &part(&held));
        refused(NEAR, &message(&format!(r#""role":"user","content":{held}"#)));
        refused(NEAR, &message(&format!(r#""role":"user","content":"a","{inner}":[{held}]"#)));
    }
}
